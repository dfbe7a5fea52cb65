// Goal: if the file is deleted or replaced under running processes, two holders exist for at most a
// ttl. Method: the test deletes or replaces the file, or only a side file, while one process holds
// a lease and another waits. Both still have the orphaned file open, but no process is granted
// anything on it, and the holder stops at its own deadline. In the meantime a new process may
// create a new file. Its tokens are higher, so a guard rejects the former holder.
import { copyFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { hostMs, numberOf, peek, until } from "../support/process/process-file.ts";
import { failed, type Held, type Puppet, puppet } from "../support/process/process-puppet.ts";

const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const processes = crew();

interface Contest {
  readonly folder: string;
  readonly file: string;
  readonly holder: Puppet;
  readonly held: Held;
  readonly waiter: Puppet;
  /** The acquire() of the waiter, which must fail. */
  readonly taken: Promise<Held>;
}

async function startContest(): Promise<Contest> {
  const folder = processes.folder();
  const file = join(folder, "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const held = await holder.acquire("settlement", TIMING);
  const taken = waiter.acquire("settlement", { ...TIMING, waitMs: 2_500 });
  const query = peek(processes, file);
  await until("a waiter is queued", () => numberOf(query("SELECT count(*) FROM waiter")) === 1);
  return { folder, file, holder, held, waiter, taken };
}

/** Checks what must hold after any change to the file. */
async function expectNoGrant({ file, holder, held, taken }: Contest): Promise<void> {
  const expiresBy = hostMs() + TIMING.ttlMs;
  const lost = await holder.lost(held);
  expect(lost.at).toBeLessThanOrEqual(expiresBy);
  const error = await failed(holder.check("settlement"));
  expect([error.name, error.reason]).toEqual(["LeaseLostError", "expired"]);
  expect([error.cause?.name, error.cause?.applied]).toEqual(["StoreUnavailableError", "no"]);
  expect(error.cause?.message).toContain(file);
  expect(error.cause?.message).toContain("deleted or replaced");
  const refused = await failed(holder.tryAcquire("other", TIMING));
  expect([refused.name, refused.applied]).toEqual(["StoreUnavailableError", "no"]);
  const waited = await failed(taken);
  expect(waited.name).toBe("StoreUnavailableError");
  expect(waited.at).toBeGreaterThan(lost.at);
}

test("S6, S7: after the file is deleted, the holder stops by safeUntil, and no process is granted a lease on the orphan", async () => {
  const contest = await startContest();
  for (const name of readdirSync(contest.folder)) rmSync(join(contest.folder, name));
  await expectNoGrant(contest);
  // S1: a new process creates a new file, and its tokens are above those of the deleted one.
  const fresh = await puppet(processes, contest.file);
  expect((await fresh.acquire("settlement", TIMING)).token).toBeGreaterThan(contest.held.token);
});

test("S6, S7: after another store file replaces the file, the holder stops by safeUntil, and no process is granted a lease on the orphan", async () => {
  const other = join(processes.folder(), "other.db");
  const elsewhere = await puppet(processes, other);
  await elsewhere.acquire("settlement", TIMING);
  await elsewhere.call("close", {});
  const contest = await startContest();
  copyFileSync(other, `${contest.file}.new`);
  renameSync(`${contest.file}.new`, contest.file);
  await expectNoGrant(contest);
});

// A process that opens the file afterwards sees neither the log nor the locks of the processes that
// already have it open.
test.each([
  ["the log", ["-wal"]],
  ["the lock table", ["-shm"]],
  ["the log and the lock table", ["-wal", "-shm"]],
])(
  "S6, S7: after only %s beside the file is deleted, the holder stops by safeUntil, and no process is granted a lease on the orphan",
  async (_what, suffixes) => {
    const contest = await startContest();
    for (const suffix of suffixes) rmSync(`${contest.file}${suffix}`);
    await expectNoGrant(contest);
  },
);
