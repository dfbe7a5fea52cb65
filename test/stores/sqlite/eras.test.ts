// Goal: whatever happens to a store file, its tokens increase, and a holder whose lease is gone
// learns it. Method: real files that are deleted, replaced by an older copy or edited directly.
import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { localDisk } from "../../../src/clients/sqlite/disk.ts";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { higher } from "../../../src/core/era.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { openFile } from "../../../src/stores/sqlite/file.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { SqliteStore } from "../../../src/stores/sqlite/store.ts";
import { Tables } from "../../../src/stores/sqlite/tables.ts";

const driver = await loadDriver();
const LIMIT_MS = 5_000;
const FILES = ["", "-wal", "-shm"];
let folder: string;
let file: string;
const stores: Store[] = [];
let attempts = 0;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tenure-eras-"));
  file = join(folder, "store.db");
});

afterEach(async () => {
  await stopAll();
  rmSync(folder, { recursive: true, force: true });
});

async function stopAll(): Promise<void> {
  for (const store of stores.splice(0)) await store.close();
}

async function open(): Promise<Store> {
  const store = await sqliteStore({ file, library: driver.name })(systemParts());
  stores.push(store);
  return store;
}

async function enter(store: Store, sessionId: string): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
}

async function take(store: Store, sessionId: string, resource = "r"): Promise<bigint> {
  attempts += 1;
  const who = { sessionId, holderId: sessionId, attempt: `attempt ${attempts}` };
  const outcome = await store.grant({ ...who, resource, queue: false, limitMs: LIMIT_MS });
  if (outcome.kind !== "granted") throw new Error(outcome.kind);
  return outcome.token;
}

async function cycle(store: Store, sessionId: string): Promise<bigint> {
  const token = await take(store, sessionId);
  await store.release({ sessionId, resource: "r", token, limitMs: LIMIT_MS });
  return token;
}

async function withConsole<T>(work: (connection: Connection) => T): Promise<T> {
  const { clock } = systemParts();
  const connection = await openFile(
    driver,
    { file, allowNetworkFileSystem: false, connectMs: 10_000 },
    clock,
  );
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}

describe("S1: tokens never fall", () => {
  test("tokens stay above earlier ones after the file was deleted while no process had it open", async () => {
    const before = await open();
    await enter(before, "one");
    let highest = 0n;
    for (let round = 0; round < 20; round += 1) highest = await cycle(before, "one");
    await stopAll();
    for (const suffix of FILES) rmSync(`${file}${suffix}`, { force: true });
    const after = await open();
    await enter(after, "two");
    expect(await take(after, "two")).toBeGreaterThan(highest);
  });

  test.each([
    ["by a rename", (copy: string) => renameSync(copy, file)],
    ["in place", (copy: string) => copyFileSync(copy, file)],
  ])(
    "tokens stay above earlier ones after the file was replaced by an older copy, %s",
    async (_, replace) => {
      const copy = join(folder, "copy.db");
      const before = await open();
      await enter(before, "one");
      await cycle(before, "one");
      await stopAll();
      copyFileSync(file, copy);
      const again = await open();
      let highest = 0n;
      for (let round = 0; round < 20; round += 1) highest = await cycle(again, "one");
      await take(again, "one", "missed");
      await stopAll();
      for (const suffix of ["-wal", "-shm"]) rmSync(`${file}${suffix}`, { force: true });
      replace(copy);
      const after = await open();
      await enter(after, "two");
      expect(await take(after, "two")).toBeGreaterThan(highest);
      expect(await take(after, "two", "missed")).toBeGreaterThan(highest);
    },
  );

  test("lowering a token by UPDATE is rejected", async () => {
    const store = await open();
    await enter(store, "one");
    const token = await take(store, "one");
    const lower = withConsole((connection) =>
      connection.exec("UPDATE lease SET token = token - 1"),
    );
    await expect(lower).rejects.toThrow("A token never falls");
    const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await store.read(read)).holder?.token).toBe(token);
  });

  test("a grant uses the clock, or the last token plus one if that is higher", async () => {
    await withConsole((connection) => {
      const tables = new Tables(connection, 10);
      const at = { bootId: "boot", nowMs: 1 };
      const about = { resource: "r", session: "s", attempt: "a", record: "{}" };
      const grant = { ...about, isAccepted: true };
      const token = fc.bigInt({ min: 1n, max: 2n ** 62n });
      fc.assert(
        fc.property(token, fc.oneof(token, fc.bigInt({ min: -3n, max: 3n })), (last, other) => {
          // Also near the last token, where the two rules could differ.
          const clock = other > 3n ? other : last + other < 1n ? 1n : last + other;
          connection.exec("DELETE FROM lease");
          expect(tables.grant({ ...grant, clock: last }, at)).toBe(last);
          expect(tables.grant({ ...grant, clock }, at)).toBe(higher(last + 1n, clock));
        }),
        { numRuns: 300 },
      );
    });
  });
});

test("S5: the holder of a lease whose row was deleted learns it from its next renewal, and another session is granted", async () => {
  const store = await open();
  for (const id of ["one", "two"]) await enter(store, id);
  const token = await take(store, "one");
  const kept = await take(store, "one", "kept");
  await withConsole((connection) => connection.exec("DELETE FROM lease WHERE resource = 'r'"));
  const next = await take(store, "two");
  expect(next).toBeGreaterThan(token);
  const renewed = await store.renew({
    sessionId: "one",
    withdrawn: [],
    acknowledged: [],
    limitMs: LIMIT_MS,
  });
  expect(renewed).toMatchObject({ kind: "renewed", gone: [{ resource: "r", token }] });
  const release = { sessionId: "one", limitMs: LIMIT_MS };
  expect(await store.release({ ...release, resource: "r", token })).toEqual({ kind: "notHeld" });
  const rest = await store.release({ ...release, resource: "kept", token: kept });
  expect(rest).toEqual({ kind: "released" });
});

test("S1: setting the wall clock back does not lower the token of a row", async () => {
  let wallMs = Date.now();
  const parts = systemParts();
  const { clock: real } = parts;
  const clock = {
    now: () => real.now(),
    wallNow: () => wallMs,
    setTimer: real.setTimer.bind(real),
    soon: real.soon.bind(real),
    onJump: real.onJump.bind(real),
  };
  const connection = await openFile(
    driver,
    { file, allowNetworkFileSystem: false, connectMs: 10_000 },
    clock,
  );
  const store = new SqliteStore({ connection, file, disk: localDisk }, { ...parts, clock });
  stores.push(store);
  await enter(store, "one");
  const first = await cycle(store, "one");
  wallMs -= 3_600_000;
  expect(await cycle(store, "one")).toBe(first + 1n);
});
