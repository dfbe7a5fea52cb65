// Goal: a handover on SQLite wakes only the next waiters, not the whole queue, because every check
// takes CPU time from the next holder. Method: one connection and one file watch per waiter, as
// separate processes would have, on one real file; a simulated kernel that reports writes on
// demand; a manual clock. The test counts the checks of the file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as joinPath } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import type { Disk } from "../../../src/clients/sqlite/disk.ts";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import type { Grant } from "../../../src/stores/contract.ts";
import { openFile } from "../../../src/stores/sqlite/file.ts";
import { SqliteStore } from "../../../src/stores/sqlite/store.ts";
import { ManualClock, manualRandom } from "../../../src/testing/manual-clock.ts";

const WAITERS = 30;
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(joinPath(tmpdir(), "tenure-waiting-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Queue {
  readonly clock: ManualClock;
  readonly counts: { checks: number };
  /** The waiters that were granted the lease, in order. */
  readonly granted: readonly number[];
  /** Reports a write to every process, as the kernel would. */
  report(): void;
  join(index: number, ttlMs?: number): Promise<void>;
  release(holder: number): Promise<void>;
}

async function makeQueue(): Promise<Queue> {
  const clock = new ManualClock();
  const parts = {
    clock,
    hostClock: clock.hostClock,
    random: manualRandom(),
    warn: () => undefined,
  };
  const file = joinPath(folder, "store.db");
  const driver = await loadDriver();
  const watchers = new Set<() => void>();
  const disk: Disk = {
    identityOf: () => "the same",
    realPathOf: (file) => file,
    watch: (_file, onReport) => {
      watchers.add(onReport);
      return { close: () => watchers.delete(onReport) };
    },
  };
  const counts = { checks: 0 };
  const counted = (connection: Connection): Connection => ({
    exec: (sql) => connection.exec(sql),
    close: () => connection.close(),
    prepare: (sql) => {
      const statement = connection.prepare(sql);
      if (!sql.includes("data_version")) return statement;
      return {
        run: (...values) => statement.run(...values),
        all: (...values) => statement.all(...values),
        get: (...values) => {
          counts.checks += 1;
          return statement.get(...values);
        },
      };
    },
  });
  const report = (): void => {
    for (const onReport of [...watchers]) onReport();
  };
  const granted: number[] = [];
  let token = 0n;
  const stores: SqliteStore[] = [];
  const now = async <T>(answer: Promise<T>): Promise<T> => {
    await clock.advance(0);
    return answer;
  };

  /** Requests the lease, and records when it is granted. The session is never renewed. */
  const join = async (index: number, ttlMs = 60_000): Promise<void> => {
    const opening = openFile(
      driver,
      { file, allowNetworkFileSystem: false, connectMs: 10_000 },
      clock,
    );
    const store = new SqliteStore({ connection: counted(await opening), file, disk }, parts);
    stores.push(store);
    const sessionId = `session-${index}`;
    const limitMs = 5_000;
    const events = {
      granted: (grant: Grant): void => {
        token = grant.token;
        granted.push(index);
      },
      lost: () => undefined,
      wanted: () => undefined,
    };
    await now(store.openSession({ sessionId, holderId: sessionId, ttlMs, events, limitMs }));
    const asked = { sessionId, resource: "r", attempt: `${sessionId}.1`, limitMs };
    const request = { ...asked, holderId: sessionId, queue: true };
    const first = await now(store.grant(request));
    if (first.kind !== "granted") return;
    token = first.token;
    granted.push(index);
  };

  const release = async (holder: number): Promise<void> => {
    const sessionId = `session-${holder}`;
    const released = stores[holder]?.release({ sessionId, resource: "r", token, limitMs: 5_000 });
    await clock.advance(0);
    expect((await released)?.kind).toBe("released");
  };
  onTestFinished(async () => {
    for (const store of stores) await store.close();
  });
  return { clock, counts, granted, report, join, release };
}

test("L2: a release with thirty waiters hands over to the first one, with few checks of the file", async () => {
  const { clock, counts, granted, report, join, release } = await makeQueue();
  for (let index = 0; index <= WAITERS; index += 1) await join(index);
  // Every waiter makes some checks at the start.
  await clock.advance(2_000);
  expect(granted).toEqual([0]);
  for (let holder = 0; holder < 5; holder += 1) {
    counts.checks = 0;
    await release(holder);
    report();
    await clock.advance(1);
    expect(granted.at(-1)).toBe(holder + 1);
    // The first and the second waiter, and the new holder after its own commit. It would be over
    // thirty if all were woken.
    expect(counts.checks).toBeLessThanOrEqual(6);
    report();
    await clock.advance(2_000);
  }
});

test.each([
  ["were dead when it arrived", 1_500],
  ["have died since its last check", 500],
])("L2: a waiter is woken promptly although the waiters before it %s", async (_, laterMs) => {
  const { clock, granted, report, join, release } = await makeQueue();
  await join(0);
  for (let index = 1; index <= 10; index += 1) await join(index, 1_000);
  await clock.advance(laterMs);
  await join(11);
  await clock.advance(2_000 - laterMs);
  await release(0);
  report();
  await clock.advance(1);
  expect(granted).toEqual([0, 11]);
});
