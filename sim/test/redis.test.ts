// Goal: a connection to the model of Redis fails as a real one does, and the model forgets only
// where only the guard is judged. Method: two machines and a network that the test cuts; days
// within and beyond the bounds.
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

const nobody: Link = { isDead: false, push: () => undefined, end: () => undefined };
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
  /** Does everything that is due in so much time. */
  const pass = async (ms: number): Promise<void> => {
    const end = schedule.now + ms;
    for (;;) {
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      if ((schedule.nextAt ?? end) >= end) break;
      schedule.step();
    }
    schedule.now = end;
  };
  const read = (): unknown => server.handle(["eval", "return redis.call('GET', 'k')", "0"], nobody);
  let backs = 0;
  const heard: string[] = [];
  const connection = new Connection(
    { schedule, network, trace, client, callee, server },
    {
      onMessage: (channel, message) => heard.push(`${channel} ${message}`),
      onBack: () => {
        backs += 1;
      },
    },
  );
  return { connection, network, server, callee, pass, read, heard, backs: () => backs };
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

  test("that is given up fails what was not answered, which still arrives", async () => {
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

  test("is refused at first, and made anew for ever once it worked", async () => {
    const { connection, callee, server, pass, backs } = world();
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
    expect(backs()).toBe(0);
    callee.isDown = false;
    server.restart();
    await pass(1_100);
    expect(backs()).toBe(1);
    const answer = connection.send(advance);
    await pass(10);
    expect(await answer).toBe(1);
  });

  test("hears what is published while it listens, and nothing of before", async () => {
    const { connection, server, pass, heard } = world();
    const tell = (text: string): unknown =>
      server.handle(["eval", `return redis.call('PUBLISH', 'c:1', '${text}')`, "0"], nobody);
    void connection.connect();
    await pass(10);
    expect(tell("early")).toEqual({ value: 0 });
    void connection.send(["psubscribe", "c:*"]);
    await pass(10);
    expect(tell("now")).toEqual({ value: 1 });
    server.restart();
    expect(tell("late")).toEqual({ value: 0 });
    await pass(200);
    expect(heard).toEqual(["c:1 now"]);
  });
});

describe("a day", () => {
  const seeds = Array.from({ length: 80 }, (_, index) => index + 1);
  const isBeyond = (seed: number): boolean => createPlan(seed, "redis").isBeyondBounds;
  const forgot = async (seed: number): Promise<boolean> => {
    const { result } = await runSeed(seed, "redis", simHost);
    return result.trace.events.some(({ kind }) => kind === "storeForgot");
  };

  test("beyond the bounds has a store that forgets", async () => {
    let days = 0;
    for (const seed of seeds.filter(isBeyond)) if (await forgot(seed)) days += 1;
    expect(days).toBeGreaterThan(1);
  });

  test("within the bounds has none", async () => {
    for (const seed of seeds.filter((one) => !isBeyond(one)).slice(0, 12))
      expect(await forgot(seed), `seed ${seed}`).toBe(false);
  });
});
