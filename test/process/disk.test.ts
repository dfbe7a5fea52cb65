// Goal: on a full disk, requests fail with a clear error and no lease or token is lost. Method: the
// store file is on a tmpfs of a few megabytes that the test mounts, fills to the last byte, empties
// again and makes read-only. Mounting needs root; without root the tests are skipped.
import { execFileSync } from "node:child_process";
import {
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeSync,
} from "node:fs";
import { join } from "node:path";
import { expect, type TestContext, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { numberOf, peek } from "../support/process/process-file.ts";
import { failed, type Puppet, puppet } from "../support/process/process-puppet.ts";

const TIMING = { ttlMs: 3_000, renewEveryMs: 500, clockErrorMs: 30, roundTripMs: 300 };
const processes = crew();

function run(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: "pipe" });
}

/** Mounts a file system of this size, which is unmounted after the test. */
function mountSmallDisk(ctx: TestContext, size: string): string {
  const folder = join(processes.folder(), "disk");
  mkdirSync(folder);
  try {
    run("mount", "-t", "tmpfs", "-o", `size=${size}`, "tmpfs", folder);
  } catch (error) {
    const [reason] = (error as Error).message.trim().split("\n").slice(-1);
    ctx.skip(`mounting a small tmpfs is not possible here: ${reason}`);
  }
  processes.afterwards(() => run("umount", "-l", folder));
  return folder;
}

/** Uses every free byte of the disk. Returns a function that frees them again. */
function fill(folder: string): () => void {
  const file = join(folder, "ballast");
  const ballast = openSync(file, "w");
  try {
    for (const size of [65_536, 4_096, 1]) {
      const block = Buffer.alloc(size, 1);
      try {
        for (;;) writeSync(ballast, block);
      } catch (error) {
        expect((error as { code?: unknown }).code).toBe("ENOSPC");
      }
    }
  } finally {
    closeSync(ballast);
  }
  return () => rmSync(file);
}

/**
 * Acquires until the log cannot grow by another page. Pages that the log already has may still take
 * some grants on a full disk.
 */
async function acquireUntilFull(
  requester: Puppet,
): Promise<{ error: Awaited<ReturnType<typeof failed>>; granted: number }> {
  for (let granted = 0; granted < 200; granted += 1) {
    try {
      await requester.tryAcquire(`more/${granted}`, TIMING);
    } catch {
      return { error: await failed(requester.tryAcquire(`more/${granted}`, TIMING)), granted };
    }
  }
  throw new Error("A full disk accepted 200 grants.");
}

test("S1, S7: on a full disk grants fail with applied no, and every lease and token survives", async (ctx) => {
  const folder = mountSmallDisk(ctx, "2m");
  const file = join(folder, "tenure.db");
  const [holder, other] = [await puppet(processes, file), await puppet(processes, file)];
  const held = await holder.acquire("settlement", TIMING);
  const before = await other.acquire("other", TIMING);
  await other.release("other");
  const freeSpace = fill(folder);

  const { error } = await acquireUntilFull(other);
  expect([error.name, error.applied]).toEqual(["StoreUnavailableError", "no"]);
  expect(error.message).toMatch(/disk of .*tenure\.db is full/i);
  const again = await failed(other.tryAcquire("other", TIMING));
  expect([again.name, again.applied]).toEqual(["StoreUnavailableError", "no"]);

  freeSpace();
  await holder.call("confirm", { resource: "settlement" });
  expect(await holder.check("settlement")).toBe(held.token);
  const after = await other.acquire("other", TIMING);
  expect(after.token).toBeGreaterThan(before.token);
  const query = peek(processes, file);
  expect(query("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  expect(numberOf(query("SELECT token FROM lease WHERE resource = 'settlement'"))).toBe(
    Number(held.token),
  );
});

test("S6: on a disk that stays full the holder stops at safeUntil, and its successor gets a larger token", async (ctx) => {
  const timing = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
  const folder = mountSmallDisk(ctx, "2m");
  const file = join(folder, "tenure.db");
  const [holder, other] = [await puppet(processes, file), await puppet(processes, file)];
  const held = await holder.acquire("settlement", timing);
  const freeSpace = fill(folder);
  await acquireUntilFull(other);
  await holder.lost(held);
  const error = await failed(holder.check("settlement"));
  expect([error.name, error.reason, error.cause?.code]).toEqual([
    "LeaseLostError",
    "expired",
    "STORE_UNAVAILABLE",
  ]);
  freeSpace();
  const next = await other.acquire("settlement", { ...timing, waitMs: 10_000 });
  expect(next.token).toBeGreaterThan(held.token);
});

test("a new file on a full disk is rejected, and opens once there is space", async (ctx) => {
  const folder = mountSmallDisk(ctx, "1m");
  const freeSpace = fill(folder);
  const file = join(folder, "tenure.db");
  const error = await failed(puppet(processes, file));
  expect(error.name).toMatch(/^Store(Unavailable|Unusable)Error$/);
  expect(error.message).toMatch(/full|no space/i);
  freeSpace();
  const late = await puppet(processes, file);
  expect((await late.acquire("settlement", TIMING)).token).toBeGreaterThan(0n);
});

test("a read-only disk is rejected with StoreUnusableError, and nothing on it is created or changed", async (ctx) => {
  const folder = mountSmallDisk(ctx, "2m");
  const file = join(folder, "tenure.db");
  const first = await puppet(processes, file);
  const { token } = await first.acquire("settlement", TIMING);
  await first.call("close", {});
  const before = readFileSync(file);
  run("mount", "-o", "remount,ro", folder);
  for (const name of [file, join(folder, "new.db")]) {
    const error = await failed(puppet(processes, name));
    expect([error.name, error.code]).toEqual(["StoreUnusableError", "STORE_UNUSABLE"]);
    expect(error.message).toContain(name);
  }
  expect(readdirSync(folder)).toEqual(["tenure.db"]);
  expect(readFileSync(file).equals(before)).toBe(true);
  run("mount", "-o", "remount,rw", folder);
  const second = await puppet(processes, file);
  expect((await second.acquire("settlement", TIMING)).token).toBeGreaterThan(token);
});
