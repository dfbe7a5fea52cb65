// Goal: what is specific to a store in a file: foreign files are rejected and left unchanged, a
// reboot neither frees a lease too early nor keeps it forever, requests share commits, and waiters
// wake up even if the kernel reports no change. Method: real files in a temporary folder; clocks
// are stand-ins where a reboot or a sleep is needed.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { Clock, HostClock } from "../../../src/async/clock.ts";
import { localDisk } from "../../../src/clients/sqlite/disk.ts";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { refuseNetworkFileSystem } from "../../../src/clients/sqlite/file-identity.ts";
import { isTenureError } from "../../../src/core/errors.ts";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { SystemClock } from "../../../src/runtime/system-clock.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { Commits } from "../../../src/stores/sqlite/commits.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";

const driver = await loadDriver();
const LIMIT_MS = 5_000;
let folder: string;
let file: string;
const stores: Store[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tenure-file-"));
  file = join(folder, "store.db");
});

afterEach(async () => {
  for (const store of stores.splice(0)) await store.close();
  rmSync(folder, { recursive: true, force: true });
});

async function open(
  hostClock: HostClock = systemParts().hostClock,
  clock: Clock = systemParts().clock,
): Promise<Store> {
  const parts = { ...systemParts(), hostClock, clock };
  const store = await sqliteStore({ file, library: driver.name })(parts);
  stores.push(store);
  return store;
}

async function refusal(url: string): Promise<string> {
  const error: unknown = await connect(url).then(
    async (tenure) => tenure.close(),
    (reason: unknown) => reason,
  );
  if (!isTenureError(error, "STORE_UNUSABLE"))
    throw new Error(`expected StoreUnusableError, got ${String(error)}`);
  return error.message;
}

function withConsole<T>(work: (connection: Connection) => T): T {
  const connection = driver.open(file);
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

async function hold(
  store: Store,
  sessionId: string,
  resource: string,
  ttlMs: number,
): Promise<bigint | string> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs, limitMs: LIMIT_MS });
  return ask(store, sessionId, resource);
}

async function ask(store: Store, sessionId: string, resource: string): Promise<bigint | string> {
  const attempt = `${sessionId}.${Math.random()}`;
  const request = {
    sessionId,
    resource,
    attempt,
    holderId: sessionId,
    queue: false,
    limitMs: LIMIT_MS,
  };
  const outcome = await store.grant(request);
  return outcome.kind === "granted" ? outcome.token : outcome.kind;
}

describe("files that are not a store", () => {
  test("a text file is rejected and left unchanged", async () => {
    writeFileSync(file, "these are my notes, not a database\n".repeat(40));
    const before = readFileSync(file);
    expect(await refusal(`sqlite:${file}`)).toContain("not a SQLite file");
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test("a SQLite file of another program is rejected and left unchanged", async () => {
    withConsole((connection) =>
      connection.exec("CREATE TABLE invoices (id INTEGER); INSERT INTO invoices VALUES (1)"),
    );
    const before = readFileSync(file);
    expect(await refusal(`sqlite:${file}`)).toContain("another program");
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test.each([
    ["a newer", 99, /newer Tenure.*schema 99.*Upgrade/s],
    ["an older", 1, /older Tenure.*schema 1,.*delete it/s],
  ])("a file of %s version is rejected and left unchanged", async (_, version, message) => {
    await (await open()).close();
    withConsole((connection) => connection.exec(`PRAGMA user_version = ${version}`));
    const before = readFileSync(file);
    expect(await refusal(`sqlite:${file}`)).toMatch(message);
    expect(readFileSync(file).equals(before)).toBe(true);
  });

  test("a store file with a damaged header is rejected", async () => {
    await (await open()).close();
    const bytes = readFileSync(file);
    bytes.fill(0x58, 0, 100);
    writeFileSync(file, bytes);
    expect(await refusal(`sqlite:${file}`)).toContain("damaged");
  });

  test("a missing folder, or a folder instead of a file, is named in the error, and nothing is created", async () => {
    expect(await refusal(`sqlite:${join(folder, "missing", "store.db")}`)).toContain(
      "does not exist",
    );
    expect(statSync(join(folder, "missing"), { throwIfNoEntry: false })).toBeUndefined();
    mkdirSync(file);
    expect(await refusal(`sqlite:${file}`)).toContain("is a folder");
  });

  test("a network file system is recognized by its number and rejected, a local one is not", () => {
    expect(() => refuseNetworkFileSystem(0x6969, "/mnt/share")).toThrow(
      /NFS.*allowNetworkFileSystem/s,
    );
    expect(() => refuseNetworkFileSystem(0xef53, "/var/lib")).not.toThrow();
  });

  test("the error for a missing driver says how to install one", async (context) => {
    const missing = driver.name === "node:sqlite" ? "better-sqlite3" : "node:sqlite";
    const present = await loadDriver(missing).catch((error: unknown) => error);
    if (!(present instanceof Error)) return context.skip("both drivers are there");
    expect(isTenureError(present, "STORE_UNUSABLE")).toBe(true);
    expect(present.message).toMatch(/npm install better-sqlite3@12.*Node 22\.13/s);
  });
});

describe("a new store file", () => {
  test("the file and its side files can be read by their owner only", async () => {
    const store = await open();
    await hold(store, "one", "r", 1_000);
    for (const suffix of ["", "-wal", "-shm"])
      expect(statSync(`${file}${suffix}`).mode & 0o777).toBe(0o600);
  });

  test("every commit is flushed to disk", async () => {
    const statements: string[] = [];
    const spy = {
      ...driver,
      open: (path: string): Connection => spied(driver.open(path), statements),
    };
    const { openFile } = await import("../../../src/stores/sqlite/file.ts");
    const connection = await openFile(
      spy,
      { file, allowNetworkFileSystem: false, connectMs: 10_000 },
      systemParts().clock,
    );
    expect(Number(connection.prepare("PRAGMA synchronous").get()?.synchronous)).toBe(2);
    expect(connection.prepare("PRAGMA journal_mode").get()?.journal_mode).toBe("wal");
    connection.close();
    expect(statements.join(";")).toContain("BEGIN IMMEDIATE");
  });

  test("requests made in one turn share one commit", async () => {
    const store = await open();
    await store.openSession({
      sessionId: "one",
      holderId: "one",
      ttlMs: 10_000,
      limitMs: LIMIT_MS,
    });
    const outside = driver.open(file);
    const version = (): unknown => outside.prepare("PRAGMA data_version").get()?.data_version;
    version();
    const walBefore = statSync(`${file}-wal`).size;
    const tokens = await Promise.all(
      Array.from({ length: 200 }, (_, index) => ask(store, "one", `r${index}`)),
    );
    const pages = (statSync(`${file}-wal`).size - walBefore) / 4120;
    outside.close();
    expect(tokens.every((token) => typeof token === "bigint")).toBe(true);
    // Two hundred separate commits would have written at least two hundred pages.
    expect(pages).toBeLessThan(100);
  });
});

function spied(connection: Connection, statements: string[]): Connection {
  return {
    exec: (sql) => {
      statements.push(sql);
      connection.exec(sql);
    },
    prepare: (sql) => connection.prepare(sql),
    close: () => connection.close(),
  };
}

function host(bootId: string, start: number): HostClock & { at: number } {
  const clock = { at: start, stepMs: 10, bootId, now: (): number => clock.at };
  return clock;
}

test("S3: a renewal counts from its own reading of the clock, not from the older one that a grant used", async () => {
  const clock = host("boot one", 20_000);
  // The machine sleeps: the clock by which grants judge the age of a reading stands still.
  const asleep = { monotonicMs: () => 0, wallMs: () => 0, hostClock: clock };
  const store = await open(clock, new SystemClock(asleep));
  expect(await hold(store, "one", "r", 1_000)).toBe(1n);
  clock.at += 900;
  expect(await ask(store, "one", "other")).toBe(1n);
  await store.renew({ sessionId: "one", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
  const request = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
  expect((await store.read(request)).holder?.expiresInMs).toBe(1_010);
});

describe("a reboot", () => {
  test("S4: a session of an earlier boot keeps its leases for one more ttl, then they are free", async () => {
    const before = await open(host("boot one", 5_000_000));
    const first = await hold(before, "one", "r", 1_000);
    expect(first).toBeTypeOf("bigint");
    await before.close();
    // The clock starts over: by its numbers alone, the old lease would last for more than an hour.
    const clock = host("boot two", 20_000);
    const after = await open(clock);
    expect(await hold(after, "two", "r", 60_000)).toBe("busy");
    const seen = await after.read({
      resource: "r",
      consistency: "linearizable",
      limitMs: LIMIT_MS,
    });
    expect(seen.holder?.expiresInMs).toBe(1_010);
    clock.at += 1_000;
    expect(await ask(after, "two", "r")).toBe("busy");
    clock.at += 20;
    expect(await ask(after, "two", "r")).toBeGreaterThan(first as bigint);
  });

  test("a reader sees the leases of an earlier boot before any of them is requested", async () => {
    const before = await open(host("boot one", 5_000_000));
    await hold(before, "one", "r", 1_000);
    await before.close();
    const after = await open(host("boot two", 20_000));
    await after.openSession({ sessionId: "two", holderId: "two", ttlMs: 1_000, limitMs: LIMIT_MS });
    const seen = await after.read({
      resource: "r",
      consistency: "linearizable",
      limitMs: LIMIT_MS,
    });
    expect(seen.holder?.holderId).toBe("one");
    // The two boots have no clock in common.
    expect(seen.holder).toHaveProperty("heldForMs", undefined);
  });

  test("another process can read how long a lease of this boot has been held", async () => {
    const clock = host("boot one", 5_000_000);
    await hold(await open(clock), "one", "r", 60_000);
    clock.at += 12_340;
    const reader = await open(clock);
    const request = { resource: "r", consistency: "stale", limitMs: LIMIT_MS } as const;
    expect((await reader.read(request)).holder?.heldForMs).toBe(12_340);
  });

  test("S5: the renewal of a holder of an earlier boot reports its session gone", async () => {
    const one = await open(host("host one", 1_000));
    expect(await hold(one, "one", "r", 1_000)).toBeTypeOf("bigint");
    const two = await open(host("host two", 1_000));
    expect(await hold(two, "two", "r", 1_000)).toBe("busy");
    expect(
      (await one.renew({ sessionId: "one", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS }))
        .kind,
    ).toBe("gone");
  });
});

describe("a deleted row", () => {
  test("S1: the next token of its resource is above the deleted one", async () => {
    const store = await open();
    await store.openSession({
      sessionId: "one",
      holderId: "one",
      ttlMs: 10_000,
      limitMs: LIMIT_MS,
    });
    const before = (await ask(store, "one", "r")) as bigint;
    withConsole((connection) => {
      connection.exec("PRAGMA busy_timeout = 2000");
      connection.exec("DELETE FROM lease");
    });
    expect(await ask(store, "one", "r")).toBeGreaterThan(before);
    expect(await ask(store, "one", "never seen")).toBeGreaterThan(before);
  });

  test("S1: a counter at the end of 64 bits fails instead of wrapping around", async () => {
    const store = await open();
    await store.openSession({
      sessionId: "one",
      holderId: "one",
      ttlMs: 10_000,
      limitMs: LIMIT_MS,
    });
    const token = await ask(store, "one", "r");
    await store.release({
      sessionId: "one",
      resource: "r",
      token: token as bigint,
      limitMs: LIMIT_MS,
    });
    withConsole((connection) => {
      connection.exec("PRAGMA busy_timeout = 2000");
      connection.exec("UPDATE lease SET token = 9223372036854775807");
    });
    const [full, other] = await Promise.allSettled([
      ask(store, "one", "r"),
      ask(store, "one", "other"),
    ]);
    expect(full.status === "rejected" && isTenureError(full.reason, "STORE_UNUSABLE")).toBe(true);
    // Both requests were made in one turn, so they shared a transaction; the error of one does not
    // affect the other.
    expect(other).toMatchObject({ status: "fulfilled", value: expect.any(BigInt) });
  });
});

describe("waking without notifications of the kernel", () => {
  test("L2: a commit of another process is noticed although the file cannot be watched", async () => {
    const store = await open();
    await hold(store, "one", "r", 10_000);
    const mine = driver.open(file);
    // The path is wrong on purpose: it has no WAL file to watch.
    const elsewhere = join(folder, "elsewhere.db");
    const { clock } = systemParts();
    const waker = new Commits({ connection: mine, file: elsewhere, disk: localDisk, clock });
    const subscription = waker.subscribe();
    const woken = subscription.next(Number.POSITIVE_INFINITY, new AbortController().signal);
    await hold(store, "two", "r2", 10_000);
    await Promise.race([
      woken,
      sleep(2_000).then(() => Promise.reject(new Error("not woken within 2 s"))),
    ]);
    subscription.close();
    mine.close();
  });
});
