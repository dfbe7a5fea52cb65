// Goal: after a reset, the SQLite and file guards admit lower tokens; a reset deletes only the
// token that its caller has read and keeps the protection against accidental lowering. Method: real
// files and plain SQL.
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { fileGuard, resetHighest as resetFile } from "../../src/guards/file/index.ts";
import {
  protectedTables,
  protectTable,
  resetHighest,
  sqliteGuard,
} from "../../src/guards/sqlite/index.ts";
import { userFiles } from "../support/guards/sqlite-guard-files.ts";

const { newFile, open } = await userFiles();
const folder = mkdtempSync(join(tmpdir(), "tenure-reset-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A token of a store that starts at the wall clock, and one of a store with a consensus log. */
const LARGE = 1_794_945_356_059_000n;
const SMALL = 42n;
const source = (token: bigint, resource = "ledger") => ({ resource, token });

describe("the SQLite guard", () => {
  test("S2: rejects a lower token, admits it after a reset, and then rejects tokens below that one", () => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.advance(source(LARGE));
    guard.advance(source(LARGE, "other"));
    expect(() => guard.advance(source(SMALL))).toThrow("stale");
    expect(resetHighest(database, "ledger", { highest: LARGE })).toBe(true);
    expect(guard.highest("ledger")).toBeUndefined();
    expect(guard.highest("other")).toBe(LARGE);
    guard.transaction(source(SMALL), (db) => db.exec("INSERT INTO entry (text) VALUES ('new')"));
    expect(() => guard.advance(source(SMALL - 1n))).toThrow("stale");
    expect(() => guard.advance(source(SMALL, "other"))).toThrow("stale");
  });

  test("S2: after a reset the highest tokens still cannot be lowered or deleted by accident", () => {
    const database = open();
    const guard = sqliteGuard(database, { prefix: "my_tokens" });
    protectTable(database, "entry", { resource: "ledger", prefix: "my_tokens" });
    guard.advance(source(LARGE));
    expect(resetHighest(database, "ledger", { highest: LARGE, prefix: "my_tokens" })).toBe(true);
    guard.advance(source(SMALL));
    const low = "1".padStart(39, "0");
    for (const text of [
      "DELETE FROM my_tokens",
      `UPDATE my_tokens SET token = '${low}'`,
      `REPLACE INTO my_tokens VALUES ('ledger', '${low}')`,
    ]) {
      expect(() => database.exec(text), text).toThrow("never fall and are never deleted");
    }
    expect(guard.highest("ledger")).toBe(SMALL);
    expect(protectedTables(database)).toMatchObject([{ table: "entry", fault: undefined }]);
  });

  test("a reset with an outdated token does nothing", () => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.advance(source(LARGE + 1n));
    expect(resetHighest(database, "ledger", { highest: LARGE })).toBe(false);
    expect(guard.highest("ledger")).toBe(LARGE + 1n);
    expect(() => database.exec("DELETE FROM tenure_guard")).toThrow("never deleted");
    expect(resetHighest(database, "nobody", { highest: LARGE })).toBe(true);
  });

  test("another connection never sees the table without its trigger", () => {
    const file = newFile();
    const database = open(file);
    const beside = open(file);
    sqliteGuard(database).advance(source(LARGE));
    sqliteGuard(database).advance(source(LARGE, "other"));
    let isTried = false;
    // A statement of the same connection during the reset: only this connection sees no trigger.
    const spied = new Proxy(database, {
      get: (target, name) =>
        name !== "exec"
          ? (Reflect.get(target, name) as () => void).bind(target)
          : (sql: string) => {
              target.exec(sql);
              if (!sql.startsWith("DROP TRIGGER")) return;
              isTried = true;
              beside.exec("PRAGMA busy_timeout = 0");
              expect(() => beside.exec("DELETE FROM tenure_guard")).toThrow(/locked|never deleted/);
            },
    });
    expect(resetHighest(spied, "ledger", { highest: LARGE })).toBe(true);
    expect(isTried).toBe(true);
    expect(() => beside.exec("DELETE FROM tenure_guard")).toThrow("never deleted");
  });

  test("a database without the guard is rejected, and nothing is created in it", () => {
    const database = open();
    const tables = () => database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.n;
    const before = tables();
    expect(() => resetHighest(database, "ledger", { highest: 1n })).toThrow("no guard");
    expect(() => resetHighest(database, "ledger", { highest: 1n, prefix: "entry" })).toThrow(
      "no guard",
    );
    expect(() => resetHighest(database, "ledger", { highest: 0n })).toThrow("fencing token");
    expect(tables()).toBe(before);
  });
});

describe("the file guard", () => {
  test("S2: rejects a lower token, and admits it after a reset of exactly the highest token", async () => {
    const path = join(folder, "state.json");
    await using guard = fileGuard(path);
    await guard.replace(source(LARGE), "old");
    await guard.append(source(LARGE), "er");
    await expect(guard.replace(source(SMALL), "new")).rejects.toThrow("stale");
    expect(await resetFile(path, "ledger", { highest: LARGE - 1n })).toBe(false);
    await expect(guard.replace(source(SMALL), "new")).rejects.toThrow("stale");
    expect(await resetFile(path, "ledger", { highest: LARGE })).toBe(true);
    expect(await resetFile(path, "ledger", { highest: LARGE })).toBe(true);
    await guard.append(source(SMALL), ", newer");
    expect(readFileSync(path, "utf8")).toBe("older, newer");
    await expect(guard.replace(source(SMALL - 1n), "late")).rejects.toThrow("stale");
    expect(existsSync(`${path}.tenure`)).toBe(true);
  });
});
