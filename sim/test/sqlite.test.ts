// Goal: the model of SQLite behaves like a real file in cases that real tests cannot control. A
// program that is stopped with the write lock blocks all other writers and exposes no uncommitted
// data, a killed program leaves no changes, and a reboot extends old sessions by one ttl. Method:
// two programs on the model, step by step on virtual time.
import { beforeAll, describe, expect, test } from "vitest";
import type { GrantOutcome, Store } from "../../src/stores/contract.ts";
import { sqliteEngine } from "../models/sqlite/index.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { FINE, Network } from "../world/network.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const TTL_MS = 1_000;
const LIMIT_MS = 200;

beforeAll(() => sqliteEngine.ready?.());

async function makeWorld() {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const chance = new Chance("sqlite");
  const network = new Network({ schedule, trace, chance, weather: FINE });
  const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 5_000, name: "machine" });
  const program = (name: string): Program =>
    new Program({ name, schedule, clocks, chance: chance.stream(name) });
  const model = sqliteEngine({ schedule, network, trace, machine: program });
  const pass = async (ms: number): Promise<void> => {
    const until = schedule.now + ms;
    for (;;) {
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
      const { nextAt } = schedule;
      if (nextAt === undefined || nextAt > until) break;
      schedule.step();
    }
    schedule.now = until;
  };
  const join = async (name: string): Promise<{ program: Program; store: Store }> => {
    const own = program(name);
    const parts = {
      clock: own.clock,
      hostClock: clocks.hostClock,
      random: own.chance,
      warn: () => undefined,
    };
    const store = await model.open(own)(parts);
    void store.openSession({ sessionId: name, holderId: name, ttlMs: TTL_MS, limitMs: LIMIT_MS });
    await pass(1);
    return { program: own, store };
  };
  return { model, schedule, trace, clocks, pass, join };
}

function grant(store: Store, sessionId: string, attempt = `${sessionId}.1`): Promise<GrantOutcome> {
  const request = { sessionId, attempt, resource: "r", holderId: sessionId, value: undefined };
  return store.grant({ ...request, queue: false, limitMs: LIMIT_MS });
}

function watched<T>(promise: Promise<T>): { value?: T; error?: unknown } {
  const seen: { value?: T; error?: unknown } = {};
  promise.then(
    (value) => {
      seen.value = value;
    },
    (error: unknown) => {
      seen.error = error;
    },
  );
  return seen;
}

async function holderOf(store: Store, pass: (ms: number) => Promise<void>): Promise<unknown> {
  const read = watched(store.read({ resource: "r", consistency: "linearizable", limitMs: 9 }));
  await pass(1);
  return read.value?.holder?.holderId;
}

describe("a program inside a write transaction", () => {
  test("blocks other writers while it is stopped, hides its changes, and continues afterwards", async () => {
    const { model, pass, join, trace } = await makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    model.beforeCommit?.(one.program, () => one.program.stop());
    const asked = watched(grant(one.store, "one"));
    await pass(10);
    expect(asked).toEqual({});
    expect(await holderOf(two.store, pass)).toBeUndefined();
    expect(trace.events.some(({ kind }) => kind === "storeGranted")).toBe(false);
    const refused = watched(grant(two.store, "two"));
    await pass(LIMIT_MS + 10);
    expect(refused.error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
    one.program.resume();
    await pass(1);
    expect(asked.value).toEqual({ kind: "granted", token: expect.any(BigInt) });
    expect(await holderOf(two.store, pass)).toBe("one");
  });

  test("leaves no changes and frees the write lock when it is killed", async () => {
    const { model, pass, join, trace } = await makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    model.beforeCommit?.(one.program, () => one.program.kill());
    const asked = watched(grant(one.store, "one"));
    await pass(10);
    expect(asked).toEqual({});
    const next = watched(grant(two.store, "two"));
    await pass(10);
    expect(next.value).toEqual({ kind: "granted", token: expect.any(BigInt) });
    expect(trace.events.filter(({ kind }) => kind === "storeGranted")).toHaveLength(1);
  });

  test("frees the write lock when it is killed while it is stopped", async () => {
    const { model, pass, join } = await makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    model.beforeCommit?.(one.program, () => one.program.stop());
    const asked = watched(grant(one.store, "one"));
    await pass(10);
    one.program.kill();
    one.program.resume();
    const next = watched(grant(two.store, "two"));
    await pass(10);
    expect([asked, next.value]).toEqual([{}, { kind: "granted", token: expect.any(BigInt) }]);
  });
});

test("an old session lasts one ttl more after a reboot, and tokens keep rising", async () => {
  const { pass, join, clocks } = await makeWorld();
  const one = await join("one");
  const first = watched(grant(one.store, "one"));
  await pass(10);
  const token = first.value?.kind === "granted" ? first.value.token : 0n;
  one.program.kill();
  clocks.reboot();
  const two = await join("two");
  await pass(TTL_MS / 2);
  const early = watched(grant(two.store, "two"));
  void two.store.renew({ sessionId: "two", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
  await pass(TTL_MS * 0.6);
  expect(early.value).toEqual({ kind: "busy", holderId: "one" });
  const late = watched(grant(two.store, "two", "two.2"));
  await pass(10);
  expect(late.value?.kind === "granted" && late.value.token > token).toBe(true);
});
