// Goal: a handover on SQLite wakes those whose turn is near, not the whole line: every look takes a core from the next holder.
// Method: one process per waiter as far as the store can tell (a connection and a watch of its own on one real file), a kernel
// that reports when the test says so, a manual clock; counted are the looks at the file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as joinPath } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import type { Disk } from "../../../src/clients/sqlite/disk.ts";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { openFile } from "../../../src/stores/sqlite/file.ts";
import { SqliteStore } from "../../../src/stores/sqlite/store.ts";
import { ManualClock, manualRandom } from "../../../src/testing/manual-clock.ts";

const WAITERS = 30;
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(joinPath(tmpdir(), "tenure-line-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Line {
  readonly clock: ManualClock;
  readonly counts: { looks: number };
  /** Who was granted the lease, in their order. */
  readonly granted: readonly number[];
  /** The kernel tells every process of a write. */
  report(): void;
  join(index: number, ttlMs?: number): Promise<void>;
  release(holder: number): Promise<void>;
}

async function makeLine(): Promise<Line> {
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
  const counts = { looks: 0 };
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
          counts.looks += 1;
          return statement.get(...values);
        },
      };
    },
  });
  const report = (): void => {
    for (const onReport of [...watchers]) onReport();
  };
  const leave = new AbortController();
  const granted: number[] = [];
  let token = 0n;
  const stores: SqliteStore[] = [];
  const now = async <T>(answer: Promise<T>): Promise<T> => {
    await clock.advance(0);
    return answer;
  };

  /** Asks, and stands in line until it is granted; nobody renews its session. */
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
    await now(store.openSession({ sessionId, holderId: sessionId, ttlMs, limitMs }));
    const asked = { sessionId, resource: "r", attempt: `${sessionId}.1`, limitMs };
    const request = { ...asked, holderId: sessionId, queue: true };
    const first = await now(store.grant(request));
    if (first.kind === "granted") {
      token = first.token;
      return void granted.push(index);
    }
    const wait = async (): Promise<void> => {
      for (;;) {
        await store.untilFree({ ...asked, signal: leave.signal });
        const again = await store.grant(request);
        if (again.kind !== "granted") continue;
        token = again.token;
        break;
      }
      granted.push(index);
    };
    void wait().catch(() => undefined);
  };

  const release = async (holder: number): Promise<void> => {
    const sessionId = `session-${holder}`;
    const released = stores[holder]?.release({ sessionId, resource: "r", token, limitMs: 5_000 });
    await clock.advance(0);
    expect((await released)?.kind).toBe("released");
  };
  onTestFinished(async () => {
    leave.abort(new Error("the test is over"));
    await clock.advance(0);
    for (const store of stores) await store.close();
  });
  return { clock, counts, granted, report, join, release };
}

test("L2: one release among thirty waiters is a handover to the first, with few looks at the file", async () => {
  const { clock, counts, granted, report, join, release } = await makeLine();
  for (let index = 0; index <= WAITERS; index += 1) await join(index);
  // The looks that every beginning brings.
  await clock.advance(2_000);
  expect(granted).toEqual([0]);
  for (let holder = 0; holder < 5; holder += 1) {
    counts.looks = 0;
    await release(holder);
    report();
    await clock.advance(1);
    expect(granted.at(-1)).toBe(holder + 1);
    // The first, the second, and what a fresh holder's own commit brings; thirty and more if all were woken.
    expect(counts.looks).toBeLessThanOrEqual(6);
    report();
    await clock.advance(2_000);
  }
});

test.each([
  ["were dead when it came", 1_500],
  ["have died since it last looked", 500],
])("L2: those before it who %s do not make the first in line patient", async (_, laterMs) => {
  const { clock, granted, report, join, release } = await makeLine();
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
