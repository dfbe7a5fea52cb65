// Goal: on SQLite, the first waiter has its head start, no shorter and no longer, however the lease
// became free: by a release, with its session, by expiry, or in an earlier boot. Method: a real
// file in a temporary folder, with clocks that the test sets.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import { SystemClock } from "../../../src/runtime/system-clock.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";

const LIMIT_MS = 5_000;
/** The attempt of session "two", which queues; all other attempts are new each time. */
const FIRST = "first in line";

/** A machine whose boot clock and monotonic clock are set by the test. */
interface Machine {
  readonly bootId: string;
  bootMs: number;
  monotonicMs: number;
}

let folder: string;
const stores: Store[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tenure-order-"));
});

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

function machine(bootId = "boot one", bootMs = 20_000): Machine {
  return { bootId, bootMs, monotonicMs: 0 };
}

async function open(on: Machine): Promise<Store> {
  const hostClock = { stepMs: 10, bootId: on.bootId, now: () => on.bootMs };
  const clock = new SystemClock({ monotonicMs: () => on.monotonicMs, wallMs: () => 0, hostClock });
  const file = join(folder, "store.db");
  const store = await sqliteStore({ file })({ ...systemParts(), hostClock, clock });
  stores.push(store);
  return store;
}

async function enter(store: Store, sessionId: string, ttlMs = 9_000): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs, limitMs: LIMIT_MS });
}

async function ask(
  store: Store,
  sessionId: string,
  resource: string,
  attempt = `${sessionId}.${Math.random()}`,
): Promise<bigint | string> {
  const who = { sessionId, holderId: sessionId, limitMs: LIMIT_MS };
  const outcome = await store.grant({ ...who, resource, attempt, queue: attempt === FIRST });
  return outcome.kind === "granted" ? outcome.token : outcome.kind;
}

function release(store: Store): Promise<{ readonly kind: string }> {
  return store.release({ sessionId: "one", resource: "r", token: 1n, limitMs: LIMIT_MS });
}

/** Session "one" holds r and s with a ttl of 1 s, "two" waits for r, and "three" is open. */
async function openWithWaiter(on: Machine): Promise<Store> {
  const store = await open(on);
  await enter(store, "one", 1_000);
  await enter(store, "two");
  await enter(store, "three");
  expect(await ask(store, "one", "r")).toBe(1n);
  expect(await ask(store, "one", "s")).toBe(1n);
  expect(await ask(store, "two", "r", FIRST)).toBe("busy");
  return store;
}

const ways: Record<string, (store: Store, on: Machine) => Promise<unknown>> = {
  "was released": release,
  "was ended with its session": (store) =>
    store.endSession({ sessionId: "one", limitMs: LIMIT_MS }),
  "expired with its session, which is swept": async (store, on) => {
    on.bootMs += 1_010;
    await enter(store, "four");
  },
  "expired with its session, from which another lease was taken": async (store, on) => {
    on.bootMs += 1_010;
    expect(await ask(store, "three", "s")).toBeTypeOf("bigint");
  },
};

describe.each(Object.entries(ways))("a lease that %s", (_name, freeing) => {
  test("a freed lease goes only to the first waiter for 250 ms, then to any session", async () => {
    const on = machine();
    const store = await openWithWaiter(on);
    await freeing(store, on);
    on.bootMs += 240;
    expect(await ask(store, "three", "r")).toBe("busy");
    on.bootMs += 10;
    expect(await ask(store, "three", "r")).toBeTypeOf("bigint");
  });

  test("a freed lease goes to the first waiter immediately", async () => {
    const on = machine();
    const store = await openWithWaiter(on);
    await freeing(store, on);
    expect(await ask(store, "two", "r", FIRST)).toBeTypeOf("bigint");
  });
});

test("a release that uses a slightly old reading of the clock does not shorten the head start", async () => {
  const on = machine();
  const store = await openWithWaiter(on);
  // The last reading was at the end of its step: the next step has almost passed, but still counts
  // as part of the one before.
  on.monotonicMs += 9.9;
  on.bootMs += 10;
  await release(store);
  on.monotonicMs += 240;
  on.bootMs += 240;
  expect(await ask(store, "three", "r")).toBe("busy");
  on.bootMs += 10;
  expect(await ask(store, "three", "r")).toBeTypeOf("bigint");
});

describe("a session that has ended", () => {
  test("the row of an ended session is removed when a session opens after the head start", async () => {
    const on = machine();
    const store = await openWithWaiter(on);
    await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
    on.bootMs += 250;
    await enter(store, "four");
    // Otherwise the id would be taken: a session can be opened only once.
    await expect(enter(store, "one")).resolves.toBeUndefined();
  });

  test("S4: an ended session is granted nothing, even with a reading of the clock from before its end", async () => {
    const on = machine();
    const store = await openWithWaiter(on);
    on.bootMs += 10;
    await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
    expect(await ask(store, "one", "other")).toBe("gone");
    expect((await release(store)).kind).toBe("notHeld");
  });

  test("L4: an ended session does not come back with the next boot", async () => {
    const before = await open(machine("boot one", 5_000_000));
    await enter(before, "one");
    expect(await ask(before, "one", "r")).toBe(1n);
    await before.endSession({ sessionId: "one", limitMs: LIMIT_MS });
    const after = await open(machine("boot two"));
    await enter(after, "two");
    expect(await ask(after, "two", "r")).toBeTypeOf("bigint");
  });
});

test("L2: a lease that was freed in an earlier boot is free, whichever session of that boot is first in the queue", async () => {
  await release(await openWithWaiter(machine("boot one", 5_000_000)));
  // By the numbers alone, the head start of session "two" would end in more than an hour.
  const after = await open(machine("boot two"));
  await enter(after, "four");
  expect(await ask(after, "four", "r")).toBeTypeOf("bigint");
});
