// Goal: a connection to the model of Redis fails like a real one, and the model loses writes only
// in runs beyond the bounds. Method: two machines and a network that the test cuts; runs within and
// beyond the bounds.
import { describe, expect, test } from "vitest";
import { createPlan } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { Connection } from "../models/redis/connection.ts";
import { type Link, RedisServer } from "../models/redis/server.ts";
import { runSeed } from "../run.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { FINE, Network } from "../world/network.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const noLink: Link = { isDead: false, push: () => undefined, end: () => undefined };
const advance = ["eval", "return redis.call('INCR', 'k')", "0"];

function world() {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const chance = new Chance("connection");
  const network = new Network({ schedule, trace, chance, weather: { ...FINE, usualMs: 2 } });
  const machine = (name: string): Program => {
    const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name });
    return new Program({ name, schedule, clocks, chance: chance.stream(name) });
  };
  const client = machine("client");
  const program = machine("store");
  const server = new RedisServer(program, trace);
  const callee = { program, isDown: false };
  /** Lets this much virtual time pass and runs the events that are due. */
  const pass = async (ms: number): Promise<void> => {
    const end = schedule.now + ms;
    for (;;) {
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      if ((schedule.nextAt ?? end) >= end) break;
      schedule.step();
    }
    schedule.now = end;
  };
  const read = (): unknown => server.handle(["eval", "return redis.call('GET', 'k')", "0"], noLink);
  let reconnects = 0;
  const received: string[] = [];
  const connection = new Connection(
    { schedule, network, trace, client, callee, server },
    {
      onMessage: (channel, message) => received.push(`${channel} ${message}`),
      onBack: () => {
        reconnects += 1;
      },
    },
  );
  return {
    connection,
    network,
    server,
    callee,
    pass,
    read,
    received,
    reconnects: () => reconnects,
  };
}

async function outcome(promise: Promise<unknown>): Promise<unknown> {
  return promise.catch((error: Error) => error.message);
}

describe("a connection", () => {
  test("answers commands in their order", async () => {
    const { connection, pass } = world();
    void connection.connect();
    await pass(10);
    const answers = Promise.all([connection.send(advance), connection.send(advance)]);
    await pass(10);
    const third = connection.send(advance);
    await pass(10);
    expect([...(await answers), await third]).toEqual([1, 2, 3]);
  });

  test("rejects unanswered commands when it is reset, although they may still arrive", async () => {
    const { connection, network, pass, read } = world();
    void connection.connect();
    await pass(10);
    network.cut("client", "store");
    const lost = outcome(connection.send(advance));
    await pass(100);
    connection.reset();
    expect(await lost).toBe("Connection is closed.");
    expect(await outcome(connection.send(advance))).toBe("Stream isn't writeable");
    expect(read()).toEqual({ value: null });
    network.heal("client", "store");
    await pass(10);
    expect(read()).toEqual({ value: "1" });
  });

  test("fails if the first attempt is refused, and reconnects without limit after it worked once", async () => {
    const { connection, callee, server, pass, reconnects } = world();
    callee.isDown = true;
    const refused = outcome(connection.connect());
    await pass(10);
    expect(await refused).toBe("connect ECONNREFUSED");
    callee.isDown = false;
    void connection.connect();
    await pass(10);
    callee.isDown = true;
    const lost = outcome(connection.send(advance));
    await pass(5_000);
    expect(await lost).toBe("Connection is closed.");
    expect(reconnects()).toBe(0);
    callee.isDown = false;
    server.restart();
    await pass(1_100);
    expect(reconnects()).toBe(1);
    const answer = connection.send(advance);
    await pass(10);
    expect(await answer).toBe(1);
  });

  test("receives messages published after it subscribed, until the server restarts", async () => {
    const { connection, server, pass, received } = world();
    const publish = (text: string): unknown =>
      server.handle(["eval", `return redis.call('PUBLISH', 'c:1', '${text}')`, "0"], noLink);
    void connection.connect();
    await pass(10);
    expect(publish("early")).toEqual({ value: 0 });
    void connection.send(["subscribe", "c:1"]);
    await pass(10);
    expect(publish("now")).toEqual({ value: 1 });
    server.restart();
    expect(publish("late")).toEqual({ value: 0 });
    await pass(200);
    expect(received).toEqual(["c:1 now"]);
  });
});

describe("a run", () => {
  const seeds = Array.from({ length: 80 }, (_, index) => index + 1);
  const isBeyond = (seed: number): boolean => createPlan(seed, "redis").isBeyondBounds;
  const hasForgotten = async (seed: number): Promise<boolean> => {
    const { result } = await runSeed(seed, "redis", simHost);
    return result.trace.events.some(({ kind }) => kind === "storeForgot");
  };

  test("beyond the bounds may have a store that loses writes", async () => {
    let count = 0;
    for (const seed of seeds.filter(isBeyond)) if (await hasForgotten(seed)) count += 1;
    expect(count).toBeGreaterThan(1);
  });

  test("within the bounds has no store that loses writes", async () => {
    for (const seed of seeds.filter((one) => !isBeyond(one)).slice(0, 12))
      expect(await hasForgotten(seed), `seed ${seed}`).toBe(false);
  });
});
