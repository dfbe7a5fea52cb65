// Goal: the file guard follows the rule of all guards, replaces and appends completely or not at
// all, and leaves only the file and its ledger. Method: the conformance suite and real files.
// test/process tests it with kill -9.

import {
  chmodSync,
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, describe, expect, test } from "vitest";
import { loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { type FileGuard, fileGuard } from "../../../src/guards/file/index.ts";
import { type GuardInSuite, guardSuite } from "../../../src/testing/index.ts";
import { sideBySide } from "../../support/stores/store-runner.ts";

const driver = await loadDriver();
const source = (token: bigint, resource = "ledger") => ({ resource, token });

guardSuite(sideBySide, {
  name: "file",
  rollsBack: false,
  create: () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-file-suite-"));
    const file = join(folder, "data");
    let opened: FileGuard[] = [];
    const closeAll = async (): Promise<void> => {
      await Promise.all(opened.map((guard) => guard.close()));
      opened = [];
    };
    return {
      open: (options) => {
        const guard = fileGuard(file, options);
        opened.push(guard);
        const write: GuardInSuite["write"] = async (given, text) => {
          const line = `${JSON.stringify([given?.resource ?? "ledger", text])}\n`;
          await (given === undefined ? guard.append(line) : guard.append(given, line));
        };
        return {
          advance: (given) => guard.advance(given),
          highest: (resource) => guard.highest(resource),
          write,
        };
      },
      written: (resource) =>
        readLines(file)
          .map((line) => JSON.parse(line) as [string, string])
          .filter(([under]) => under === resource)
          .map(([, text]) => text),
      restart: closeAll,
      close: async () => {
        await closeAll();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
});

function readLines(file: string): string[] {
  return existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
}

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

function place(): { folder: string; file: string } {
  const folder = mkdtempSync(join(tmpdir(), "tenure-file-"));
  endings.push(() => rmSync(folder, { recursive: true, force: true }));
  return { folder, file: join(folder, "data.json") };
}

function open(file: string, options = {}): FileGuard {
  const guard = fileGuard(file, options);
  endings.push(() => guard.close());
  return guard;
}

describe("the file guard", () => {
  test("S2: replaces the file for the current token, rejects a stale one, and keeps the mode", async () => {
    const { folder, file } = place();
    writeFileSync(file, "by hand");
    chmodSync(file, 0o640);
    const guard = open(file);
    await guard.replace(source(5n), "five");
    expect(readFileSync(file, "utf8")).toBe("five");
    expect(statSync(file).mode & 0o777).toBe(0o640);
    await expect(guard.replace(source(4n), "late")).rejects.toMatchObject({
      code: "STALE_TOKEN",
      offered: 4n,
      highest: 5n,
    });
    await guard.replace(source(6n), Buffer.from([0, 255]));
    expect([...readFileSync(file)]).toEqual([0, 255]);
    await guard.close();
    expect(readdirSync(folder).sort()).toEqual(["data.json", "data.json.tenure"]);
  });

  test("replace and append alternate without damaging each other's data", async () => {
    const { file } = place();
    const guard = open(file);
    let expected = "";
    for (let turn = 0; turn < 30; turn += 1) {
      const text = "x".repeat((turn * 37) % 101);
      if (turn % 3 === 0) {
        await guard.replace(source(1n), text);
        expected = text;
      } else {
        await guard.append(source(1n), text);
        expected += text;
      }
      expect(readFileSync(file, "utf8")).toBe(expected);
    }
  });

  test("the next write removes an incomplete append and keeps a complete one", async () => {
    const { file } = place();
    await open(file).append(source(1n), "first\n");
    const ledger = driver.open(`${file}.tenure`);
    endings.push(() => ledger.close());
    // The state after a writer was killed in the middle of an append of 100 bytes.
    ledger.exec("INSERT OR REPLACE INTO append (id, offset, length) VALUES (1, 6, 100)");
    writeFileSync(file, "first\ntorn");
    await open(file).append(source(1n), "second\n");
    expect(readFileSync(file, "utf8")).toBe("first\nsecond\n");
    ledger.exec("INSERT OR REPLACE INTO append (id, offset, length) VALUES (1, 13, 6)");
    writeFileSync(file, "first\nsecond\nwhole\n");
    await open(file).append(source(1n), "third\n");
    expect(readFileSync(file, "utf8")).toBe("first\nsecond\nwhole\nthird\n");
    // A replace is not damaged by the repair of an earlier append.
    ledger.exec("INSERT OR REPLACE INTO append (id, offset, length) VALUES (1, 2, 100)");
    await open(file).replace(source(1n), "replaced");
    await open(file).append(source(1n), "!");
    expect(readFileSync(file, "utf8")).toBe("replaced!");
  });

  test("the temporary file of a killed writer is removed", async () => {
    const { folder, file } = place();
    writeFileSync(`${file}.tenure-new`, "half");
    const guard = open(file);
    await guard.append(source(1n), "a");
    expect(existsSync(`${file}.tenure-new`)).toBe(false);
    writeFileSync(`${file}.tenure-new`, "half");
    await guard.replace(source(1n), "b");
    expect(readdirSync(folder).filter((name) => name.endsWith("-new"))).toEqual([]);
    expect(readFileSync(file, "utf8")).toBe("b");
  });

  test("S6: the file is not replaced if the lease ends while the data is being written", async () => {
    const { folder, file } = place();
    const guard = open(file);
    await guard.replace(source(1n), "before");
    let checks = 0;
    const lease = {
      ...source(1n),
      check: () => {
        checks += 1;
        if (checks > 2) throw Object.assign(new Error("lost"), { code: "LEASE_LOST" });
        return 1n;
      },
    };
    await expect(guard.replace(lease, "late")).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(checks).toBe(3);
    expect(readFileSync(file, "utf8")).toBe("before");
    expect(readdirSync(folder).filter((name) => name.endsWith("-new"))).toEqual([]);
  });

  test("a guard opened through a link uses the same ledger", async () => {
    const { folder, file } = place();
    await open(file).replace(source(2n), "two");
    symlinkSync(file, join(folder, "link"));
    const other = open(join(folder, "link"));
    await expect(other.replace(source(1n), "late")).rejects.toMatchObject({ code: "STALE_TOKEN" });
    await other.replace(source(3n), "three");
    expect(readFileSync(file, "utf8")).toBe("three");
  });
});

describe("one file under two names", () => {
  test("S2: a data file with a second name (hard link) is rejected", () => {
    const { folder, file } = place();
    writeFileSync(file, "data");
    linkSync(file, join(folder, "other"));
    expect(() => fileGuard(file)).toThrow(/data\.json has 2 names.*write at the same time/s);
  });

  test("S2: a ledger with a second name (hard link) is rejected, and nothing is written", async () => {
    const { folder, file } = place();
    await open(file).append(source(2n), "two");
    linkSync(`${file}.tenure`, join(folder, "other.tenure"));
    const other = open(join(folder, "other"));
    await expect(other.append(source(1n), "one")).rejects.toMatchObject({
      code: "STORE_UNUSABLE",
      message: expect.stringContaining("has 2 names"),
    });
    expect(existsSync(join(folder, "other"))).toBe(false);
  });

  test("S2: a ledger path that is a symbolic link refers to the target of the link", async () => {
    const [one, other] = [place(), place()];
    await open(one.file).append(source(2n), "two");
    const ledger = join(other.folder, "ledger");
    symlinkSync(`${one.file}.tenure`, ledger);
    const guard = open(one.file, { ledger });
    await expect(guard.append(source(1n), "one")).rejects.toMatchObject({ code: "STALE_TOKEN" });
  });

  test("a symbolic link to a file that does not exist is rejected and kept", () => {
    const { folder } = place();
    const link = join(folder, "link");
    symlinkSync(join(folder, "missing"), link);
    expect(() => fileGuard(link)).toThrow(/symbolic link to .*missing, which does not exist/);
    expect(readdirSync(folder)).toEqual(["link"]);
  });
});

test("replace() keeps the owner and the group of the file", async (context) => {
  if (process.getuid?.() !== 0) context.skip("only root can give a file to another user");
  const { file } = place();
  writeFileSync(file, "before");
  chownSync(file, 65_534, 65_533);
  // Set again, because the change of owner has cleared the set-user-id bit.
  chmodSync(file, 0o4600);
  await open(file).replace(source(1n), "after");
  const { uid, gid, mode } = statSync(file);
  expect({ uid, gid, mode: mode & 0o7777 }).toEqual({ uid: 65_534, gid: 65_533, mode: 0o4600 });
});

describe("invalid input to the file guard", () => {
  test.each([
    "not a database, but a text that is long enough to be read",
    "SQLite format 3\0 and then junk",
  ])("S2: a damaged ledger is reported, and nothing is written: %s", async (junk) => {
    const { file } = place();
    writeFileSync(file, "kept");
    writeFileSync(`${file}.tenure`, junk.padEnd(5_000, "."));
    const guard = open(file);
    for (const act of [
      () => guard.replace(source(9n), "late"),
      () => guard.append(source(9n), "late"),
      () => guard.advance(source(9n)),
      () => guard.highest("ledger"),
    ]) {
      await expect(act()).rejects.toMatchObject({
        code: "STORE_UNUSABLE",
        message: expect.stringContaining("damaged"),
      });
    }
    expect(readFileSync(file, "utf8")).toBe("kept");
  });

  test("a ledger of another program, or one that was deleted, is rejected", async () => {
    const { file } = place();
    const foreign = driver.open(`${file}.tenure`);
    foreign.exec("CREATE TABLE x (y)");
    foreign.close();
    await expect(open(file).append(source(1n), "x")).rejects.toThrow("another program");
    rmSync(`${file}.tenure`);
    const guard = open(file);
    await guard.append(source(1n), "x");
    rmSync(`${file}.tenure`);
    await expect(guard.append(source(1n), "y")).rejects.toThrow("deleted or replaced");
    expect(readFileSync(file, "utf8")).toBe("x");
  });

  // A process that opens the ledger afterwards would not see what this guard writes to the old
  // files.
  test.each(["-wal", "-shm"])(
    "S2: a guard refuses to write when the %s file of its ledger was deleted",
    async (suffix) => {
      const { folder, file } = place();
      await open(file).append(source(1n), "x");
      symlinkSync(`${file}.tenure`, join(folder, "ledger"));
      const guard = open(file, { ledger: join(folder, "ledger") });
      await guard.append(source(2n), "y");
      rmSync(`${file}.tenure${suffix}`);
      await expect(guard.append(source(2n), "z")).rejects.toThrow("deleted or replaced");
      expect(readFileSync(file, "utf8")).toBe("xy");
    },
  );

  test("a write that cannot get the lock in time is rejected, and nothing is written", async () => {
    const { file } = place();
    const guard = open(file, { waitMs: 50 });
    await guard.append(source(1n), "x");
    const other = driver.open(`${file}.tenure`);
    endings.push(() => other.close());
    other.exec("BEGIN IMMEDIATE");
    await expect(guard.append(source(1n), "y")).rejects.toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
      message: expect.stringContaining("waitMs"),
    });
    other.exec("ROLLBACK");
    await guard.append(source(1n), "z");
    expect(readFileSync(file, "utf8")).toBe("xz");
  });

  test("invalid paths, data and waits, and calls after close(), are rejected", async () => {
    const { folder, file } = place();
    mkdirSync(join(folder, "sub"));
    expect(() => fileGuard("")).toThrow("path of a file");
    expect(() => fileGuard(join(folder, "none", "x"))).toThrow("does not exist");
    expect(() => fileGuard(join(folder, "sub"))).toThrow("not a plain file");
    expect(() => fileGuard(file, { waitMs: -1 })).toThrow("waitMs");
    const guard = open(file);
    await expect(guard.replace(source(1n), 7 as never)).rejects.toThrow("text or bytes");
    await expect(guard.replace(undefined as never, "x")).rejects.toThrow("lease");
    expect(existsSync(file)).toBe(false);
    await guard.close();
    await guard.close();
    await expect(guard.append(source(1n), "x")).rejects.toMatchObject({ code: "CLOSED" });
  });
});
