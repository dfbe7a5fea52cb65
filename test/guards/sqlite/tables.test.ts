// Goal: a protected table of a SQLite database rejects every write without a current token,
// whatever its path. Method: real files; a second connection stands for another process, and plain
// SQL for another language. Rows are read back.
import { describe, expect, test } from "vitest";
import type { Connection } from "../../../src/clients/sqlite/driver.ts";
import {
  protectSql,
  protectTable,
  sqliteGuard,
  type TokenSource,
  unprotectTable,
} from "../../../src/guards/sqlite/index.ts";
import { padToken, StaleTokenError } from "../../../src/index.ts";
import { userFiles } from "../../support/guards/sqlite-guard-files.ts";

const { newFile, open } = await userFiles();

/** A database with one row, protected for "ledger". */
function openProtected(file: string = newFile()): Connection {
  const database = open(file);
  database.exec("INSERT INTO entry (text) VALUES ('before')");
  protectTable(database, "entry", { resource: "ledger" });
  return database;
}

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });
const add =
  (text: string) =>
  (database: Connection): void =>
    void database.prepare("INSERT INTO entry (text) VALUES (?)").run(text);
const texts = (database: Connection): unknown[] =>
  database
    .prepare("SELECT text FROM entry ORDER BY seq")
    .all()
    .map((row) => row.text);
const left = (database: Connection): unknown =>
  database.prepare("SELECT count(*) AS n FROM tenure_guard_admitted").get()?.n;
const REFUSED = "takes writes only from the holder of 'ledger'";

describe("a protected table", () => {
  test("S2: rejects insert, replace, update and delete on every connection", () => {
    const file = newFile();
    const database = openProtected(file);
    sqliteGuard(database).advance(source(1n));
    for (const connection of [database, open(file)]) {
      for (const sql of [
        "INSERT INTO entry (text) VALUES ('bare')",
        "REPLACE INTO entry (seq, text) VALUES (1, 'bare')",
        "INSERT INTO entry (seq, text) VALUES (1, 'x') ON CONFLICT DO UPDATE SET text = 'bare'",
        "UPDATE entry SET text = 'bare'",
        "DELETE FROM entry",
        "DELETE FROM entry WHERE seq = 1",
        "BEGIN IMMEDIATE; DELETE FROM entry; COMMIT",
      ]) {
        expect(() => connection.exec(sql), sql).toThrow(REFUSED);
        if (sql.startsWith("BEGIN")) connection.exec("ROLLBACK");
      }
    }
    expect(texts(database)).toEqual(["before"]);
  });

  test("S2: accepts the writes of an admitted guard, even one that was opened before the protection", () => {
    const file = newFile();
    const [first, second] = [open(file), open(file)];
    const [before, other] = [sqliteGuard(first), sqliteGuard(second)];
    before.transaction(source(1n), add("unprotected"));
    protectTable(second, "entry", { resource: "ledger" });
    before.transaction(source(1n), add("protected"));
    other.transaction(source(2n), add("next term"));
    expect(() => before.transaction(source(1n), add("late"))).toThrow(StaleTokenError);
    expect(() => add("bare")(first)).toThrow(REFUSED);
    expect(texts(first)).toEqual(["unprotected", "protected", "next term"]);
    expect(left(first)).toBe(0);
  });

  test("S2: an admission for another resource is not valid", () => {
    const database = openProtected();
    const guard = sqliteGuard(database);
    expect(() => guard.transaction(source(9n, "another"), add("wrong"))).toThrow(REFUSED);
    expect(texts(database)).toEqual(["before"]);
    expect(left(database)).toBe(0);
  });

  test("S2: a write that throws leaves no admission", () => {
    const database = openProtected();
    const guard = sqliteGuard(database);
    const failing = (db: Connection): never => {
      add("half done")(db);
      throw new Error("on purpose");
    };
    expect(() => guard.transaction(source(1n), failing)).toThrow("on purpose");
    expect(() => add("bare")(database)).toThrow(REFUSED);
    expect(texts(database)).toEqual(["before"]);
    expect([left(database), guard.highest("ledger")]).toEqual([0, undefined]);
  });

  test("S2: a write that commits by itself leaves no admission", () => {
    const database = openProtected();
    const guard = sqliteGuard(database);
    const committing = (db: Connection): void => {
      add("too early")(db);
      db.exec("COMMIT");
    };
    expect(() => guard.transaction(source(1n), committing)).toThrow("FOREIGN KEY");
    expect(() => add("bare")(database)).toThrow(REFUSED);
    expect(texts(database)).toEqual(["before"]);
    expect(left(database)).toBe(0);
  });

  test("a leftover admission does not lock out the holder, and its next write removes it", () => {
    const database = openProtected();
    const guard = sqliteGuard(database);
    guard.advance(source(5n));
    database.exec(`PRAGMA foreign_keys = OFF;
      INSERT INTO tenure_guard_admitted (resource, token) VALUES ('ledger', '${padToken(5n)}');
      PRAGMA foreign_keys = ON`);
    add("through the hole")(database);
    guard.transaction(source(6n), add("the holder"));
    expect(left(database)).toBe(0);
    expect(() => add("bare")(database)).toThrow(REFUSED);
    expect(() => guard.transaction(source(5n), add("late"))).toThrow(StaleTokenError);
    expect(texts(database)).toEqual(["before", "through the hole", "the holder"]);
  });

  test("S2: an admission in plain SQL is compared, allows writes, and must be deleted before the commit", () => {
    const database = openProtected();
    sqliteGuard(database).advance(source(5n));
    const admit = (token: bigint): string =>
      `INSERT INTO tenure_guard_admitted (resource, token) VALUES ('ledger', '${padToken(token)}');`;
    const take = "DELETE FROM tenure_guard_admitted;";
    const write = "INSERT INTO entry (text) VALUES ('by hand');";
    expect(() => database.exec(`BEGIN IMMEDIATE; ${admit(4n)}`)).toThrow("stale");
    database.exec("ROLLBACK");
    expect(() => database.exec(`BEGIN IMMEDIATE; ${admit(6n)} ${write} COMMIT`)).toThrow("FOREIGN");
    database.exec("ROLLBACK");
    expect(() => database.exec(admit(6n))).toThrow("FOREIGN");
    expect(texts(database)).toEqual(["before"]);
    database.exec(`BEGIN IMMEDIATE; ${admit(6n)} ${write} ${take} COMMIT`);
    expect(texts(database)).toEqual(["before", "by hand"]);
    expect(sqliteGuard(database).highest("ledger")).toBe(6n);
  });
});

describe("protectTable()", () => {
  test("can be undone, even after the table was renamed, and repeated for another resource", () => {
    const database = openProtected();
    database.exec("ALTER TABLE entry RENAME TO renamed");
    expect(() => database.exec("DELETE FROM renamed")).toThrow(REFUSED);
    unprotectTable(database, "renamed");
    database.exec("DELETE FROM renamed; ALTER TABLE renamed RENAME TO entry");
    protectTable(database, "ENTRY", { resource: 'it\'s; "odd"' });
    expect(() => add("bare")(database)).toThrow("only from the holder of");
    sqliteGuard(database).transaction(source(1n, 'it\'s; "odd"'), add("admitted"));
    expect(texts(database)).toEqual(["admitted"]);
  });

  test("accepts a name with quotes and semicolons, and another table for the guard", () => {
    const database = open();
    const name = `a"b; DROP TABLE entry; --'`;
    database.exec(`CREATE TABLE "${name.replaceAll('"', '""')}" (id)`);
    protectTable(database, name, { resource: "ledger", prefix: "mine" });
    const insert = `INSERT INTO "${name.replaceAll('"', '""')}" VALUES (1)`;
    expect(() => database.exec(insert)).toThrow(REFUSED);
    sqliteGuard(database, { prefix: "mine" }).transaction(source(1n), (db) => db.exec(insert));
    expect(texts(database)).toEqual([]);
  });

  test("rejects what cannot be protected with the reason, and changes nothing", () => {
    const database = openProtected();
    database.exec("CREATE VIEW seen AS SELECT 1");
    const protect = (name: unknown, resource = "ledger") =>
      protectTable(database, name as string, { resource });
    expect(() => protect("nowhere")).toThrow("there is no such table");
    expect(() => protect("seen")).toThrow("it is a view");
    expect(() => protect("entry")).toThrow("protected already");
    expect(() => protect("Entry", "other")).toThrow("protected already");
    expect(() => protect("tenure_guard")).toThrow("the guard's own");
    expect(() => protect("tenure_guard_admitted")).toThrow("the guard's own");
    expect(() => protect("")).toThrow("Expected the name of a table");
    expect(() => protect(undefined)).toThrow("Expected the name of a table");
    expect(() => protect("seen", "")).toThrow("resource name");
    expect(() => unprotectTable(database, "seen")).toThrow("it is not protected");
    expect(() => protectSql("entry", { resource: "r", prefix: "a b" })).toThrow("plain name");
    expect(texts(database)).toEqual(["before"]);
  });
});
