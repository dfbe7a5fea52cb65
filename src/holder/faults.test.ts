// Goal: whatever the network does, at most one holder may act at any instant, and it is the holder
// in the store (S3, S4, S6, S7). Method: random runs of three processes on one resource. Requests
// are lost, answers are lost or late, a process stalls, clocks jump. After every event, check() is
// called on all leases that were ever acquired.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  hang,
  loseReply,
  type Member,
  makeWorld,
  outcome,
  TIMING,
  type World,
} from "../../test/support/holder/holder-world.ts";
import { expiresAt } from "../stores/memory/backend.ts";
import type { Lease } from "./lease.ts";

const RESOURCE = "settlement";
const PROCESSES = 3;

type Weather = "fine" | "down" | "hang" | "loseReply" | "slowRequest" | "slowReply";
type Event =
  | { readonly kind: "pass" | "stall"; readonly ms: number }
  | {
      readonly kind: "weather";
      readonly process: number;
      readonly weather: Weather;
      readonly ms: number;
    }
  | {
      readonly kind: "acquire";
      readonly process: number;
      readonly act: boolean;
      readonly ms: number;
    }
  | { readonly kind: "release"; readonly process: number }
  | { readonly kind: "jump" };

const process_ = fc.integer({ min: 0, max: PROCESSES - 1 });
const weather = fc.constantFrom<Weather>(
  "fine",
  "fine",
  "down",
  "hang",
  "loseReply",
  "slowRequest",
  "slowReply",
);
const event: fc.Arbitrary<Event> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({ kind: fc.constant("pass"), ms: fc.integer({ min: 1, max: 6_000 }) }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant("stall"), ms: fc.integer({ min: 1, max: 12_000 }) }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("weather"),
      process: process_,
      weather,
      ms: fc.integer({ min: 1, max: 4_000 }),
    }),
  },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("acquire"),
      process: process_,
      act: fc.boolean(),
      ms: fc.integer({ min: 1, max: 20_000 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("release"), process: process_ }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("jump") }) },
) as fc.Arbitrary<Event>;

/** What the network does to one process from now on. */
function change(world: World, { store }: Member, to: Weather, ms: number): void {
  const later = (): Promise<void> =>
    new Promise((resolve) => {
      world.clock.setTimer(resolve, ms);
    });
  store.unhook();
  if (to === "down") store.hookAll(down);
  if (to === "hang") store.hookAll(hang);
  if (to === "loseReply") store.hookAll(loseReply);
  if (to === "slowRequest") store.hookAll(async (forward) => later().then(forward));
  if (to === "slowReply") {
    store.hookAll(async (forward) => forward().then((answer) => later().then(() => answer)));
  }
}

class Day {
  readonly leases: { readonly lease: Lease; readonly process: number }[] = [];
  readonly #world = makeWorld();
  readonly #members: Member[] = [];

  async live(events: readonly Event[]): Promise<void> {
    for (let index = 0; index < PROCESSES; index += 1) {
      this.#members.push(await this.#world.join(`process-${index}`));
    }
    for (const happened of events) {
      await this.#apply(happened);
      this.#judge();
    }
    await this.#evening();
  }

  async #apply(happened: Event): Promise<void> {
    const { clock } = this.#world;
    const member = "process" in happened ? this.#members[happened.process] : undefined;
    if (happened.kind === "pass") await clock.advance(happened.ms);
    if (happened.kind === "stall") clock.stall(happened.ms);
    if (happened.kind === "jump") clock.jump();
    if (member === undefined) return;
    if (happened.kind === "weather") change(this.#world, member, happened.weather, happened.ms);
    if (happened.kind === "acquire") this.#acquire(member, happened);
    if (happened.kind === "release") {
      for (const { lease, process: owner } of this.leases) {
        if (owner === happened.process) void lease.release();
      }
    }
    await flush();
  }

  #acquire({ tenure }: Member, how: { process: number; act: boolean; ms: number }): void {
    const whileInDoubt = how.act ? "act" : "stop";
    void tenure.acquire(RESOURCE, { waitMs: how.ms, whileInDoubt }).then(
      (lease) => this.leases.push({ lease, process: how.process }),
      () => undefined,
    );
  }

  /** At most one may act, and the store agrees: its own clock has not ended that grant. */
  #judge(): void {
    const acting = this.leases.filter(({ lease }) => mayAct(lease)).map(({ lease }) => lease.token);
    expect(acting.length).toBeLessThanOrEqual(1);
    const entry = this.#world.backend.entries.get(RESOURCE);
    for (const token of acting) {
      expect(entry?.token).toBe(token);
      expect(entry?.held && expiresAt(entry.held.session)).toBeGreaterThan(this.#world.clock.now());
    }
    const tokens = this.leases.map(({ lease }) => lease.token);
    expect(tokens).toEqual([...new Set(tokens)].sort((one, other) => (one < other ? -1 : 1)));
  }

  /**
   * The network recovers and all processes close. No timer may remain, and the resource is free.
   */
  async #evening(): Promise<void> {
    const { clock, join } = this.#world;
    for (const { store } of this.#members) store.unhook();
    const closed = Promise.all(this.#members.map(({ tenure }) => tenure.close()));
    await clock.advance(3 * TIMING.ttlMs);
    await closed;
    expect(clock.timers).toBe(0);
    for (const { lease } of this.leases) expect(mayAct(lease)).toBe(false);
    const late = await join("late");
    expect((await late.tenure.tryAcquire(RESOURCE))?.token).toBeDefined();
  }
}

function mayAct(lease: Lease): boolean {
  try {
    return lease.check() === lease.token;
  } catch {
    return false;
  }
}

describe("random runs", () => {
  test("S3, S4, S6: at most one holder may act at any instant, the store agrees, and nothing remains at the end", async () => {
    let handedOut = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(event, { minLength: 10, maxLength: 60 }), async (events) => {
        const day = new Day();
        await day.live(events);
        handedOut += day.leases.length;
      }),
      { numRuns: 150 },
    );
    // Runs without any holder would prove nothing.
    expect(handedOut).toBeGreaterThan(150);
  });
});

describe("a store that fails every call", () => {
  test.each([
    ["refuses", down],
    ["never answers", hang],
  ] as const)("S7: when it %s nobody gets a lease, by any door", async (_, fault) => {
    const { clock, backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hookAll(fault);
    const doors = [
      tenure.acquire("a", { waitMs: 20_000 }),
      tenure.acquire("b", { waitMs: 20_000, whileInDoubt: "act" }),
      tenure.acquire("c", { waitMs: 0 }),
      tenure.tryAcquire("d"),
      tenure.withLease("e", { waitMs: 20_000 }, () => "worked"),
    ].map((door) => door.catch((error: unknown) => error));
    await clock.advance(60_000);
    for (const door of doors) {
      expect(await outcome(door)).toMatchObject({ value: { code: "STORE_UNAVAILABLE" } });
    }
    expect(backend.entries.size).toBe(0);
    expect(clock.timers).toBe(0);
  });

  test("S7: if every answer is lost there is no lease, and unacknowledged grants are withdrawn", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    one.store.hookAll(loseReply);
    const waiting = one.tenure.acquire("a", { waitMs: 20_000 }).catch((error: unknown) => error);
    await clock.advance(40_000);
    expect(await waiting).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
    expect((await two.tenure.tryAcquire("a"))?.check()).toBeDefined();
  });
});
