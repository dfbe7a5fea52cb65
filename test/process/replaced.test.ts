// Goal: who deletes or replaces the file under running processes does not get two holders for long.
// Method: the file (or only a side file) disappears while one process holds and one waits. They still have the orphan
// open, but nobody is granted anything on it, and the holder stops by its own deadline. A new process may start a new file
// in the meantime. Its tokens are higher, so a guard refuses the former holder.
import { copyFileSync, readdirSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { hostMs, numberOf, peek, until } from "../support/process/process-file.ts";
import { failed, type Held, type Puppet, puppet } from "../support/process/process-puppet.ts";

const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const processes = crew();

interface Scene {
  readonly folder: string;
  readonly file: string;
  readonly holder: Puppet;
  readonly held: Held;
  readonly waiter: Puppet;
  /** Its acquire(), which must come to nothing. */
  readonly taken: Promise<Held>;
}

async function scene(): Promise<Scene> {
  const folder = processes.folder();
  const file = join(folder, "tenure.db");
  const [holder, waiter] = [await puppet(processes, file), await puppet(processes, file)];
  const held = await holder.acquire("settlement", TIMING);
  const taken = waiter.acquire("settlement", { ...TIMING, waitMs: 2_500 });
  const look = peek(processes, file);
  await until("it waits", () => numberOf(look("SELECT count(*) FROM waiter")) === 1);
  return { folder, file, holder, held, waiter, taken };
}

/** What must hold whatever was done to the file. */
async function expectTheEnd({ file, holder, held, taken }: Scene): Promise<void> {
  const overAt = hostMs() + TIMING.ttlMs;
  const lost = await holder.lost(held);
  expect(lost.at).toBeLessThanOrEqual(overAt);
  const error = await failed(holder.check("settlement"));
  expect([error.name, error.reason]).toEqual(["LeaseLostError", "expired"]);
  expect([error.cause?.name, error.cause?.applied]).toEqual(["StoreUnavailableError", "no"]);
  expect(error.cause?.message).toContain(file);
  expect(error.cause?.message).toContain("deleted or replaced");
  const refused = await failed(holder.tryAcquire("other", TIMING));
  expect([refused.name, refused.applied]).toEqual(["StoreUnavailableError", "no"]);
  const unserved = await failed(taken);
  expect(unserved.name).toBe("StoreUnavailableError");
  expect(unserved.at).toBeGreaterThan(lost.at);
}

test("S6, S7: after the file was deleted the holder stops by safeUntil, and nobody is granted on the orphan", async () => {
  const now = await scene();
  for (const name of readdirSync(now.folder)) rmSync(join(now.folder, name));
  await expectTheEnd(now);
  // S1: a new process starts a new file, and its tokens are above those of the lost one.
  const fresh = await puppet(processes, now.file);
  expect((await fresh.acquire("settlement", TIMING)).token).toBeGreaterThan(now.held.token);
});

test("S6, S7: after another store file was moved over it the holder stops by safeUntil, and nobody is granted on the orphan", async () => {
  const other = join(processes.folder(), "other.db");
  const elsewhere = await puppet(processes, other);
  await elsewhere.acquire("settlement", TIMING);
  await elsewhere.call("close", {});
  const now = await scene();
  copyFileSync(other, `${now.file}.new`);
  renameSync(`${now.file}.new`, now.file);
  await expectTheEnd(now);
});

// Whoever opens the file afterwards sees neither the log nor the locks of those who had it open before.
test.each([
  ["the log", ["-wal"]],
  ["the lock table", ["-shm"]],
  ["the log and the lock table", ["-wal", "-shm"]],
])(
  "S6, S7: after only %s beside the file was deleted the holder stops by safeUntil, and nobody is granted on the orphan",
  async (_what, suffixes) => {
    const now = await scene();
    for (const suffix of suffixes) rmSync(`${now.file}${suffix}`);
    await expectTheEnd(now);
  },
);
