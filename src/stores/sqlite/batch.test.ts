// Goal: a writer tries to get the write lock at once, often while it becomes free soon, and rarely
// if many writers wait. Method: a fake file whose lock is taken, on a manual clock; the test counts
// the tries.
import { expect, test } from "vitest";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection } from "../../clients/sqlite/driver.ts";
import { ManualClock, manualRandom } from "../../testing/manual-clock.ts";
import { Batch } from "./batch.ts";

function lockedFile(): { writer: Batch; clock: ManualClock; tries: () => number; free(): void } {
  const clock = new ManualClock();
  let [tries, isFree] = [0, false];
  const run = (): { changes: number } => {
    tries += 1;
    if (!isFree) throw Object.assign(new Error("database is locked"), { code: "SQLITE_BUSY" });
    return { changes: 0 };
  };
  const connection = {
    exec: () => undefined,
    prepare: (sql: string) => ({ run: sql.startsWith("BEGIN") ? run : () => ({ changes: 0 }) }),
  } as unknown as Connection;
  const disk = {
    realPathOf: (file: string) => file,
    identityOf: () => "the same",
  } as unknown as Disk;
  const parts = { connection, file: "made-up", disk, clock, random: manualRandom() };
  const writer = new Batch({ ...parts, onCommit: () => undefined });
  const free = (): void => {
    isFree = true;
  };
  return { writer, clock, tries: () => tries, free };
}

test("two writers: a lock that is free in a moment is had in a moment", async () => {
  const { writer, clock, tries, free } = lockedFile();
  const written = writer.write(1_000, () => "done");
  await clock.advance(3);
  expect(tries()).toBeGreaterThanOrEqual(2);
  free();
  await clock.advance(2);
  expect(await written).toBe("done");
});

test("in a crowd of writers, tries become rare, and frequent again after 100 ms", async () => {
  const { writer, clock, tries } = lockedFile();
  const refused = writer.write(1_000, () => "done").catch((error: unknown) => error);
  await clock.advance(100);
  const early = tries();
  // A try every 2 ms at most would be 50 and more.
  expect(early).toBeLessThan(25);
  await clock.advance(100);
  expect(tries() - early).toBeGreaterThan(2 * early);
  await clock.advance(820);
  expect(await refused).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
  expect(clock.timers).toBe(0);
});
