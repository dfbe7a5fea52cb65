// Goal: a handover on SQLite wakes those whose turn is near, not the whole line: every look takes a core from the next holder.
// Method: one process per waiter as far as the store can tell (a connection and a watch of its own on one real file), a kernel
// that reports when the test says so, a manual clock; counted are the looks at the file.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import type { Disk } from "../../src/stores/sqlite/disk.ts";
import { type Connection, loadDriver } from "../../src/stores/sqlite/driver.ts";
import { openFile } from "../../src/stores/sqlite/file.ts";
import { SqliteStore } from "../../src/stores/sqlite/store.ts";
import { ManualClock, manualRandom } from "../../src/testing/manual-clock.ts";

const WAITERS = 30;
const folder = mkdtempSync(join(tmpdir(), "tenure-line-"));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("L2: one release among thirty waiters is a handover to the first, with few looks at the file", async () => {
  const clock = new ManualClock();
  const parts = { clock, hostClock: clock.hostClock, random: manualRandom() };
  const file = join(folder, "store.db");
  const driver = await loadDriver();
  const watchers = new Set<() => void>();
  const disk: Disk = {
    identityOf: () => "the same",
    watch: (_file, onReport) => {
      watchers.add(onReport);
      return { close: () => watchers.delete(onReport) };
    },
  };
  let looks = 0;
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
          looks += 1;
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
  const stores: SqliteStore[] = [];
  const now = async <T>(answer: Promise<T>): Promise<T> => {
    await clock.advance(0);
    return answer;
  };

  /** Asks, and stands in line until it is granted. */
  const joinLine = async (index: number): Promise<void> => {
    const opening = openFile(driver, { file, allowNetworkFileSystem: false }, clock);
    const store = new SqliteStore({ connection: counted(await opening), file, disk }, parts);
    stores.push(store);
    const sessionId = `session-${index}`;
    const limitMs = 5_000;
    await now(store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs }));
    const asked = { sessionId, resource: "r", attempt: `${sessionId}.1`, limitMs };
    const request = { ...asked, holderId: sessionId, queue: true };
    const first = await now(store.grant(request));
    if (first.kind === "granted") return void granted.push(index);
    const wait = async (): Promise<void> => {
      for (;;) {
        await store.untilFree({ ...asked, signal: leave.signal });
        if ((await store.grant(request)).kind === "granted") break;
      }
      granted.push(index);
    };
    void wait().catch(() => undefined);
  };

  for (let index = 0; index <= WAITERS; index += 1) await joinLine(index);
  // The looks that every beginning brings.
  await clock.advance(2_000);
  expect(granted).toEqual([0]);
  for (let holder = 0; holder < 5; holder += 1) {
    looks = 0;
    const sessionId = `session-${holder}`;
    const token = BigInt(holder + 1);
    const release = stores[holder]?.release({ sessionId, resource: "r", token, limitMs: 5_000 });
    await clock.advance(0);
    expect((await release)?.kind).toBe("released");
    report();
    await clock.advance(1);
    expect(granted.at(-1)).toBe(holder + 1);
    // The first, the second, and what a fresh holder's own commit brings; thirty and more if all were woken.
    expect(looks).toBeLessThanOrEqual(6);
    report();
    await clock.advance(2_000);
  }
  leave.abort(new Error("the test is over"));
  await clock.advance(0);
  for (const store of stores) await store.close();
});
