// Goal: on SQLite, a lease is handed off to the first waiter however it became free: by a release,
// a revocation, with its session, by expiry, or in an earlier boot. Method: a real file in a
// temporary folder, with clocks that the test sets.
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
const FIRST = "first in the queue";

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
  expect(await ask(store, "two", "r", FIRST)).toBe("queued");
  return store;
}

const ways: Record<string, (store: Store, on: Machine) => Promise<unknown>> = {
  "was released": release,
  "was revoked": (store) => store.revoke({ resource: "r", token: 1n, limitMs: LIMIT_MS }),
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

test.each(Object.entries(ways))("a lease that %s is handed off to the waiter", async (_, free) => {
  const on = machine();
  const store = await openWithWaiter(on);
  await free(store, on);
  const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  expect((await store.read(read)).holder?.holderId).toBe("two");
  expect(await ask(store, "three", "r")).toBe("busy");
  expect(await ask(store, "two", "r", FIRST)).toBe((await store.read(read)).holder?.token);
});

describe("a session that has ended", () => {
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

test("L1: waiters of an earlier boot keep their places for one ttl, and are then skipped", async () => {
  await release(await openWithWaiter(machine("boot one", 5_000_000)));
  const on = machine("boot two");
  const after = await open(on);
  await enter(after, "four");
  // The release handed the lease off to session "two", which ended with its boot.
  expect(await ask(after, "four", "r")).toBe("busy");
  on.bootMs += 9_020;
  await enter(after, "five");
  expect(await ask(after, "five", "r")).toBeTypeOf("bigint");
});
