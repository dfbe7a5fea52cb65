// Goal: a caller never sees an answer that a later copy of its request made untrue, and the model
// records a single end for each lease. Method: deliver every request twice; release a lease after
// its session ended.
import { describe, expect, test } from "vitest";
import { memoryEngine } from "../models/memory/index.ts";
import { call } from "../world/call.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { FINE, Network, type Weather } from "../world/network.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const LIMIT_MS = 200;

function makeWorld(weather: Weather) {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const chance = new Chance("memory");
  const network = new Network({ schedule, trace, chance, weather });
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 5_000, name: "machine" });
  const machine = (name: string): Program =>
    new Program({ name, schedule, clocks, chance: chance.stream(name) });
  /** Runs until no event is left. */
  const pass = async (): Promise<void> => {
    do for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    while (schedule.step());
  };
  return { schedule, trace, network, clocks, machine, pass };
}

describe("a request that is delivered twice", () => {
  test("gets the answer to its last copy", async () => {
    const { network, machine, pass } = makeWorld({ ...FINE, duplicate: 1, usualMs: 20 });
    const from = machine("client");
    const to = { program: machine("server"), isDown: false };
    const answers: { value: number; handled: number }[] = [];
    for (let count = 0; count < 100; count += 1) {
      let handled = 0;
      const handle = async (): Promise<number> => {
        handled += 1;
        return handled;
      };
      const answer = call({ network, from, to, what: "question", limitMs: LIMIT_MS, handle });
      const value = answer.then((number) => ({ number }));
      await pass();
      answers.push({ value: (await value).number, handled });
    }
    expect(answers.filter(({ handled }) => handled === 2).length).toBeGreaterThan(20);
    expect(answers.filter(({ handled }) => handled === 1).length).toBeGreaterThan(20);
    expect(answers.filter(({ value, handled }) => value !== handled)).toEqual([]);
  });
});

describe("the trace of the memory model", () => {
  test("has no second end for a lease that ended with its session", async () => {
    const { schedule, trace, network, clocks, machine, pass } = makeWorld(FINE);
    const model = memoryEngine({ schedule, network, trace, machine });
    const own = machine("p1");
    const parts = {
      clock: own.clock,
      hostClock: clocks.hostClock,
      random: own.chance,
      warn: () => undefined,
    };
    const store = await model.open(own)(parts);
    const request = { sessionId: "a", limitMs: LIMIT_MS };
    void store.openSession({ ...request, holderId: "a", ttlMs: 1_000 });
    await pass();
    const wish = { resource: "r", attempt: "a.1", holderId: "a", value: undefined, queue: false };
    void store.grant({ ...request, ...wish });
    await pass();
    void store.endSession(request);
    await pass();
    const late = store.release({ ...request, resource: "r", token: 1n });
    await pass();
    expect(await late).toEqual({ kind: "notHeld" });
    const ends = trace.events.flatMap((event) => (event.kind === "storeFreed" ? event.how : []));
    expect(ends).toEqual(["sessionEnded"]);
  });
});
