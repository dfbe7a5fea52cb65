// Goal: two processes never hold the same lease, even if they open the store file under two paths
// or measure time with two clocks. Method: real bind mounts in mount namespaces, hard links,
// symbolic links and time namespaces. Where the kernel or the user's permissions do not allow them,
// the test is skipped with the reason.
import { execFileSync } from "node:child_process";
import { linkSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import Database from "better-sqlite3";
import { describe, expect, type TestContext, test } from "vitest";
import { fileGuard } from "../../src/guards/file/index.ts";
import { crew } from "../support/process/process-children.ts";
import { hostMs } from "../support/process/process-file.ts";
import { failed, puppet } from "../support/process/process-puppet.ts";

const TIMING = { ttlMs: 1_500, clockErrorMs: 10, roundTripMs: 200 };
/** For leases that must not expire during the test, also if their renewals fail. */
const LONG_TTL_MS = 60_000;
const FUSE = new URL("./workers/fuse.mjs", import.meta.url);
const processes = crew();

/** Skips the test if this command fails. */
function skipUnlessRuns(ctx: TestContext, ...[command = "", ...args]: string[]): void {
  try {
    execFileSync(command, args, { stdio: "pipe" });
  } catch (error) {
    const output = (error as Error).message.trim().split("\n").at(-1);
    ctx.skip(`${command} ${args.join(" ")} is not possible here: ${output}`);
  }
}

/**
 * Start options for a process in its own mount namespace, in which `what` is visible at `where`.
 */
function withMount(what: string, where: string): { through: string[] } {
  const script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"';
  return { through: ["unshare", "-m", "sh", "-c", script, "sh", what, where] };
}

describe("one store file under two names", () => {
  test("S4: a bind mount of a single file is rejected; a bind mount of its folder works", async (ctx) => {
    skipUnlessRuns(ctx, "unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt");
    const [home, away] = [processes.folder(), processes.folder()];
    const [file, other] = [join(home, "tenure.db"), join(away, "te nure.db")];
    const holder = await puppet(processes, file);
    const held = await holder.acquire("settlement", { ttlMs: LONG_TTL_MS });
    writeFileSync(other, "");
    const error = await failed(puppet(processes, other, {}, withMount(file, other)));
    expect([error.name, error.code]).toEqual(["StoreUnusableError", "STORE_UNUSABLE"]);
    expect(error.message).toContain(`${other} is a mount point`);
    expect(error.message).toContain("two processes could hold one lease");
    expect(error.message).toContain("Mount the folder instead");
    const through = await puppet(processes, join(away, "tenure.db"), {}, withMount(home, away));
    expect(await through.tryAcquire("settlement", TIMING)).toBeUndefined();
    expect(await holder.check("settlement")).toBe(held.token);
  });

  test("S4: a file with a second name (hard link) is rejected under both names", async () => {
    const folder = processes.folder();
    const [file, other] = [join(folder, "tenure.db"), join(folder, "other.db")];
    const holder = await puppet(processes, file);
    // With two names, the renewals of the holder are rejected too.
    await holder.acquire("settlement", { ttlMs: LONG_TTL_MS });
    linkSync(file, other);
    for (const name of [file, other]) {
      const error = await failed(puppet(processes, name));
      expect(error.code).toBe("STORE_UNUSABLE");
      expect(error.message).toContain(`${name} has 2 names (hard links)`);
      expect(error.message).toContain("two processes could hold one lease");
    }
    rmSync(other);
    const second = await puppet(processes, file);
    expect(await second.tryAcquire("settlement", TIMING)).toBeUndefined();
  });

  test("processes that use a symbolic link and the file itself compete for one lease", async () => {
    const [folder, links] = [processes.folder(), processes.folder()];
    const [file, link] = [join(folder, "tenure.db"), join(links, "link.db")];
    const holder = await puppet(processes, file);
    symlinkSync(file, link);
    const other = await puppet(processes, link);
    const held = await holder.acquire("settlement", { ttlMs: LONG_TTL_MS });
    expect(await other.tryAcquire("settlement", TIMING)).toBeUndefined();
    const waiting = other.acquire("settlement", { ...TIMING, waitMs: 10_000 });
    await holder.release("settlement");
    expect((await waiting).token).toBeGreaterThan(held.token);
  });

  test.each([["-wal"], ["-shm"]])(
    "S6, S7: a holder that opened a symbolic link detects that the %s file was deleted",
    async (suffix) => {
      const [folder, links] = [processes.folder(), processes.folder()];
      const [file, link] = [join(folder, "tenure.db"), join(links, "link.db")];
      writeFileSync(file, "");
      symlinkSync(file, link);
      const holder = await puppet(processes, link);
      const held = await holder.acquire("settlement", TIMING);
      const expiresBy = hostMs() + TIMING.ttlMs;
      rmSync(`${file}${suffix}`);
      expect((await holder.lost(held)).at).toBeLessThanOrEqual(expiresBy);
      const error = await failed(holder.tryAcquire("other", TIMING));
      expect([error.name, error.applied]).toEqual(["StoreUnavailableError", "no"]);
      expect(error.message).toContain("deleted or replaced");
    },
  );

  test("S6, S7: a holder detects that a symbolic link in its path has a new target", async () => {
    const folder = processes.folder();
    for (const release of ["one", "two"]) mkdirSync(join(folder, release));
    symlinkSync("one", join(folder, "current"));
    const file = join(folder, "current", "tenure.db");
    const holder = await puppet(processes, file);
    const held = await holder.acquire("settlement", TIMING);
    const expiresBy = hostMs() + TIMING.ttlMs;
    symlinkSync("two", join(folder, "next"));
    renameSync(join(folder, "next"), join(folder, "current"));
    expect((await holder.lost(held)).at).toBeLessThanOrEqual(expiresBy);
  });
});

test("S4: the store and the file guard reject a symbolic link into a network file system", async (ctx) => {
  const [folder, remote] = [processes.folder(), processes.folder()];
  skipUnlessRuns(ctx, "test", "-w", "/dev/fuse");
  const ready = await processes.start(FUSE, { folder: remote }).heard("ready");
  if (ready.error !== undefined) ctx.skip(`FUSE cannot be withMount here: ${ready.error}`);
  processes.afterwards(() => execFileSync("umount", ["-l", remote]));
  const link = join(folder, "link");
  symlinkSync(join(remote, "file"), link);
  const error = await failed(puppet(processes, link));
  expect(error.code).toBe("STORE_UNUSABLE");
  expect(error.message).toContain(`${join(remote, "file")} is on FUSE`);
  expect(error.message).toContain("allowNetworkFileSystem");
  expect(() => fileGuard(link)).toThrow("is on FUSE");
  expect(() => fileGuard(join(remote, "new"))).toThrow("is on FUSE");
});

test("S2: the file guard and the SQLite guard reject a bind mount of a single file", (ctx) => {
  skipUnlessRuns(ctx, "unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt");
  const [home, away] = [join(processes.folder(), "data.db"), join(processes.folder(), "data.db")];
  for (const file of [home, away]) new Database(file).exec("CREATE TABLE entry (text)").close();
  const [command = "", ...args] = withMount(home, away).through;
  const code = `
    import Database from "better-sqlite3";
    import { fileGuard } from "tenure/guards/file";
    import { sqliteGuard } from "tenure/guards/sqlite";
    const file = ${JSON.stringify(away)};
    for (const make of [() => fileGuard(file), () => sqliteGuard(new Database(file))]) {
      try { make(); console.log("made"); } catch (error) { console.log(error.message); }
    }`;
  const node = [process.execPath, "--input-type=module", "-e", code];
  const output = execFileSync(command, [...args, ...node], { encoding: "utf8" })
    .trim()
    .split("\n");
  expect(output).toHaveLength(2);
  for (const message of output) {
    expect(message).toContain(`${away} is a mount point`);
    expect(message).toContain("write at the same time");
  }
});

describe("one store file with two clocks", () => {
  test("S4: a process in another time namespace acquires a held lease only after its holder has lost it", async (ctx) => {
    skipUnlessRuns(ctx, "unshare", "-T", "--boottime", "100000", "true");
    const file = join(processes.folder(), "tenure.db");
    const holder = await puppet(processes, file);
    const held = await holder.acquire("settlement", TIMING);
    const through = ["unshare", "-T", "--boottime", "100000"];
    const other = await puppet(processes, file, {}, { through });
    // The store treats the other namespace as another boot: it ends the holder's session, and the
    // other process waits for a whole ttl.
    const lost = holder.lost(held);
    const taken = await other.acquire("settlement", { ...TIMING, waitMs: 10_000 });
    expect(taken.token).toBeGreaterThan(held.token);
    expect((await lost).at).toBeLessThan(taken.at);
  });

  test("S4: a host clock that is not the kernel's own (lxcfs) is rejected", async (ctx) => {
    skipUnlessRuns(ctx, "unshare", "-m", "mount", "--bind", "/proc/version", "/proc/uptime");
    const folder = processes.folder();
    const uptime = join(folder, "uptime");
    writeFileSync(uptime, "17.42 10.00\n");
    const file = join(folder, "tenure.db");
    const error = await failed(puppet(processes, file, {}, withMount(uptime, "/proc/uptime")));
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toContain("/proc/uptime");
    expect(error.message).toContain("two processes could hold one lease");
  });
});
