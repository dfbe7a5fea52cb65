// Goal: in a SQLite database, the comparison, the highest token and the user's rows are one atomic
// step (S2). Method: the SQLite library of this Node on real files; two connections stand for two
// processes; after every rejection or failure, both the rows and the highest token are read back.
import { linkSync, symlinkSync } from "node:fs";
import type BetterSqlite3 from "better-sqlite3";
import fc from "fast-check";
import { describe, expect, expectTypeOf, test } from "vitest";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { connect } from "../../../src/connect.ts";
import {
  type SqliteDatabase,
  sqliteGuard,
  type TokenSource,
} from "../../../src/guards/sqlite/index.ts";
import { padToken, StaleTokenError } from "../../../src/index.ts";
import { userFiles } from "../../support/guards/sqlite-guard-files.ts";

const { newFile, open } = await userFiles();

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });

function add(text: string): (database: Connection) => void {
  return (database) => void database.prepare("INSERT INTO entry (text) VALUES (?)").run(text);
}

function texts(database: Connection): unknown[] {
  return database
    .prepare("SELECT text FROM entry ORDER BY seq")
    .all()
    .map((row) => row.text);
}

describe("one database under two names", () => {
  test("S2: a database file with a second name (hard link) is rejected, and gets no table", () => {
    const file = newFile();
    const database = open(file);
    const name = newFile();
    linkSync(file, name);
    expect(() => sqliteGuard(database)).toThrow(
      expect.objectContaining({
        code: "STORE_UNUSABLE",
        message: expect.stringMatching(/has 2 names.*write at the same time/s),
      }),
    );
    const tables = database.prepare("SELECT name FROM sqlite_schema WHERE name LIKE 'tenure%'");
    expect(tables.all()).toEqual([]);
  });

  test("a database that is opened through a symbolic link, in memory or in a temporary file is accepted", async () => {
    const link = newFile();
    const file = newFile();
    open(file);
    symlinkSync(file, link);
    const driver = await loadDriver();
    for (const database of [open(link), driver.open(":memory:"), driver.open("")]) {
      const guard = sqliteGuard(database);
      guard.advance(source(2n));
      expect(guard.highest("ledger")).toBe(2n);
    }
  });
});

describe("the SQLite guard", () => {
  test("S2: admits equal and larger tokens; a lower one throws and nothing is written", () => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.transaction(source(5n), add("first"));
    guard.transaction(source(5n), add("same term"));
    guard.transaction(source(7n), add("next term"));
    const facts = { code: "STALE_TOKEN", offered: 6n, highest: 7n, resource: "ledger" };
    expect(() => guard.transaction(source(6n), add("late"))).toThrow(
      expect.objectContaining(facts),
    );
    expect(texts(database)).toEqual(["first", "same term", "next term"]);
    expect(guard.highest("ledger")).toBe(7n);
  });

  test("S2: if the write throws, its rows and the new highest token are rolled back together", () => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.transaction(source(5n), add("kept"));
    const failing = (db: Connection): never => {
      add("half done")(db);
      throw new Error("the user's own fault");
    };
    expect(() => guard.transaction(source(9n), failing)).toThrow("the user's own fault");
    expect(texts(database)).toEqual(["kept"]);
    expect(guard.highest("ledger")).toBe(5n);
    guard.transaction(source(6n), add("still admitted"));
    expect(texts(database)).toEqual(["kept", "still admitted"]);
  });

  test("S2: after an advance the former holder is rejected before the new one has written", () => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.transaction(source(1n), add("old"));
    guard.advance(source(2n));
    expect(() => guard.transaction(source(1n), add("late"))).toThrow(StaleTokenError);
    expect(() => guard.advance(source(1n))).toThrow(StaleTokenError);
    expect(texts(database)).toEqual(["old"]);
  });

  test("S2: two resources in one database have independent tokens", () => {
    const guard = sqliteGuard(open());
    guard.advance(source(9n, "left"));
    guard.advance(source(1n, `right'; DROP TABLE entry; --`));
    expect(guard.highest("left")).toBe(9n);
    expect(guard.highest(`right'; DROP TABLE entry; --`)).toBe(1n);
    expect(guard.highest("neither")).toBeUndefined();
  });

  test("S2: tokens above 2^53 and up to 2^127 are compared exactly", () => {
    for (const token of [2n ** 53n, 2n ** 63n, 2n ** 64n, 10n ** 38n, 2n ** 127n - 2n]) {
      const guard = sqliteGuard(open());
      guard.advance(source(token));
      guard.advance(source(token + 1n));
      expect(guard.highest("ledger")).toBe(token + 1n);
      expect(() => guard.advance(source(token))).toThrow(StaleTokenError);
    }
  });

  test("S2: the highest survives closing and reopening the file", async () => {
    const file = newFile();
    const before = (await loadDriver()).open(file);
    sqliteGuard(before).advance(source(2n ** 90n));
    before.close();
    const guard = sqliteGuard(open(file));
    expect(guard.highest("ledger")).toBe(2n ** 90n);
    expect(() => guard.advance(source(2n ** 90n - 1n))).toThrow(StaleTokenError);
  });

  test.each([
    "UPDATE tenure_guard SET token = substr('00' || token, 1, 39)",
    "UPDATE tenure_guard SET resource = 'other'",
    "UPDATE OR REPLACE tenure_guard SET resource = 'right' WHERE resource = 'ledger'",
    "DELETE FROM tenure_guard",
    "DELETE FROM tenure_guard WHERE resource = 'ledger'",
    `REPLACE INTO tenure_guard VALUES ('ledger', '${padToken(89n)}')`,
    `INSERT OR REPLACE INTO tenure_guard VALUES ('ledger', '${padToken(1n)}')`,
    `INSERT INTO tenure_guard VALUES ('ledger', '${padToken(1n)}') ON CONFLICT DO UPDATE SET token = excluded.token`,
  ])("S2: the highest tokens cannot be lowered or deleted by hand: %s", (sql) => {
    const database = open();
    const guard = sqliteGuard(database);
    guard.advance(source(90n));
    guard.advance(source(1n, "right"));
    expect(() => database.exec(sql)).toThrow("never fall and are never deleted");
    expect([guard.highest("ledger"), guard.highest("right")]).toEqual([90n, 1n]);
    database.exec(`UPDATE tenure_guard SET token = '${padToken(91n)}' WHERE resource = 'ledger'`);
    guard.advance(source(92n));
    expect(guard.highest("ledger")).toBe(92n);
  });

  test("S2: opening a guard adds that protection to a table of version 0.1.0 and keeps its tokens", () => {
    const file = newFile();
    const database = open(file);
    database.exec(`CREATE TABLE tenure_guard (
         resource TEXT PRIMARY KEY NOT NULL,
         token TEXT NOT NULL CHECK (length(token) = 39 AND token NOT GLOB '*[^0-9]*')
       ) WITHOUT ROWID; INSERT INTO tenure_guard VALUES ('ledger', '${padToken(7n)}')`);
    database.exec("BEGIN IMMEDIATE");
    // The guard can be opened while another connection writes.
    const busy = open(file);
    busy.exec("PRAGMA busy_timeout = 1");
    expect(sqliteGuard(busy).highest("ledger")).toBe(7n);
    database.exec("ROLLBACK");
    expect(sqliteGuard(database).highest("ledger")).toBe(7n);
    expect(() => busy.exec("DELETE FROM tenure_guard")).toThrow("never fall");
  });

  test("returns the result of the write, and passes it the user's own connection", () => {
    const database = open();
    const guard = sqliteGuard(database);
    expect(guard.transaction(source(1n), (db) => (db === database ? "same" : "other"))).toBe(
      "same",
    );
  });

  test("accepts the types of better-sqlite3", () => {
    expectTypeOf<BetterSqlite3.Database>().toExtend<SqliteDatabase>();
  });
});

describe("two connections to one file", () => {
  test("S2: a token that one connection admits is compared by the other", () => {
    const file = newFile();
    const [first, second] = [open(file), open(file)];
    const [older, newer] = [sqliteGuard(first), sqliteGuard(second)];
    older.transaction(source(1n), add("old"));
    newer.transaction(source(2n), add("new"));
    expect(() => older.transaction(source(1n), add("late"))).toThrow(StaleTokenError);
    expect(texts(first)).toEqual(["old", "new"]);
  });

  test("S2: while one is between comparison and commit, no other can compare", () => {
    const file = newFile();
    const [first, second] = [open(file), open(file)];
    const [older, newer] = [sqliteGuard(first), sqliteGuard(second)];
    // The token is already the highest, so only the guard's own lock can block.
    older.advance(source(1n));
    older.transaction(source(1n), (db) => {
      expect(() => newer.advance(source(2n))).toThrow(/locked/);
      add("old")(db);
    });
    newer.advance(source(2n));
    expect(() => older.transaction(source(1n), add("late"))).toThrow(StaleTokenError);
    expect(texts(second)).toEqual(["old"]);
  });

  test("S2: over any mix of writes, failures and advances, rows never decrease in token", () => {
    const step = fc.record({
      by: fc.integer({ min: 0, max: 1 }),
      token: fc.bigInt({ min: 1n, max: 12n }),
      act: fc.constantFrom("write", "fail", "advance"),
    });
    const run = fc.property(fc.array(step, { maxLength: 25 }), (steps) => {
      const file = newFile();
      const databases = [open(file), open(file)];
      const guards = databases.map((database) => sqliteGuard(database));
      const expected: string[] = [];
      let highest = 0n;
      for (const { by, token, act } of steps) {
        const guard = guards[by];
        const outcome = attempt(() => {
          if (act === "advance") guard?.advance(source(token));
          else guard?.transaction(source(token), entry(token, act === "fail"));
        });
        expect(outcome).toBe(token < highest ? "STALE_TOKEN" : act === "fail" ? "failed" : "done");
        if (outcome !== "done") continue;
        highest = token;
        if (act === "write") expected.push(String(token));
      }
      expect(guards[0]?.highest("ledger") ?? 0n).toBe(highest);
      expect(texts(databases[1] as Connection)).toEqual(expected);
    });
    fc.assert(run, { numRuns: 40 });
  });
});

describe("a lease as the source", () => {
  test("S6: the check of a lost lease rejects the write, and nothing is written", async () => {
    await using tenure = await connect("memory:");
    const database = open();
    const guard = sqliteGuard(database);
    const lease = await tenure.acquire("ledger");
    guard.transaction(lease, add("in time"));
    await lease.release();
    expect(() => guard.transaction(lease, add("late"))).toThrow(
      expect.objectContaining({ code: "LEASE_LOST" }),
    );
    expect(() => guard.advance(lease)).toThrow(expect.objectContaining({ code: "LEASE_LOST" }));
    expect(texts(database)).toEqual(["in time"]);
    guard.transaction(source(lease.token), add("the connection is usable again"));
  });
});

describe("a lease that ends during a write", () => {
  test("S6: a write is not committed after its lease has ended", () => {
    const database = open();
    const guard = sqliteGuard(database);
    let isOver = false;
    const check = (): bigint => {
      if (isOver) throw new Error("over by now");
      return 3n;
    };
    const slow = (db: Connection): void => {
      add("late")(db);
      isOver = true;
    };
    expect(() => guard.transaction({ ...source(3n), check }, slow)).toThrow("over by now");
    expect(texts(database)).toEqual([]);
    expect(guard.highest("ledger")).toBeUndefined();
  });

  test("S6: a lost lease is rejected before the file is locked", () => {
    const file = newFile();
    const [locking, other] = [open(file), open(file)];
    const guard = sqliteGuard(other);
    const check = (): bigint => {
      throw new Error("lost");
    };
    locking.exec("BEGIN IMMEDIATE");
    expect(() => guard.transaction({ ...source(3n), check }, add("late"))).toThrow("lost");
    locking.exec("ROLLBACK");
  });
});

describe("invalid input to the SQLite guard", () => {
  test.each([1.5, 1, -1n, 0n, 2n ** 127n, "1", undefined])("a token of %s is rejected", (token) => {
    const database = open();
    const guard = sqliteGuard(database);
    const bad = { resource: "ledger", token } as TokenSource;
    expect(() => guard.transaction(bad, add("bad"))).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
    expect(texts(database)).toEqual([]);
    expect(guard.highest("ledger")).toBeUndefined();
  });

  test("an async function is rejected before it is called", () => {
    const database = open();
    const guard = sqliteGuard(database);
    expect(() => guard.transaction(source(1n), async (db) => add("async")(db))).toThrow(
      "must be synchronous",
    );
    expect(texts(database)).toEqual([]);
  });

  test("a plain function that returns a promise is rejected, and its writes are rolled back", () => {
    const database = open();
    const guard = sqliteGuard(database);
    const write = (db: Connection): Promise<void> => {
      add("before the await")(db);
      return Promise.resolve();
    };
    expect(() => guard.transaction(source(1n), write)).toThrow("must be synchronous");
    expect(texts(database)).toEqual([]);
    expect(guard.highest("ledger")).toBeUndefined();
  });

  test("a nested guarded transaction fails, and the outer one is rolled back", () => {
    const database = open();
    const guard = sqliteGuard(database);
    const nested = (db: Connection): void => {
      add("outer")(db);
      guard.transaction(source(2n), add("inner"));
    };
    expect(() => guard.transaction(source(1n), nested)).toThrow("within a transaction");
    expect(texts(database)).toEqual([]);
    expect(guard.highest("ledger")).toBeUndefined();
    guard.transaction(source(1n), add("the connection is usable again"));
  });

  test("a write that ends the transaction itself gets SQLite's error", () => {
    const database = open();
    const guard = sqliteGuard(database);
    expect(() => guard.transaction(source(1n), (db) => db.exec("ROLLBACK"))).toThrow(
      "no transaction is active",
    );
    expect(guard.highest("ledger")).toBeUndefined();
  });

  test("a table of another program and an invalid name are rejected, and nothing is changed", () => {
    const database = open();
    expect(() => sqliteGuard(database, { prefix: "entry" })).toThrow("belongs to something else");
    expect(() => sqliteGuard(database, { prefix: `a"; DROP TABLE entry` })).toThrow("plain name");
    expect(() => sqliteGuard(undefined as unknown as Connection)).toThrow("open connection");
    expect(texts(database)).toEqual([]);
  });
});

function entry(token: bigint, fails: boolean): (database: Connection) => void {
  return (database) => {
    add(String(token))(database);
    if (fails) throw new Error("on purpose");
  };
}

/** The code of the error, "failed" for an error without a code, or "done". */
function attempt(work: () => void): string {
  try {
    work();
    return "done";
  } catch (error) {
    return (error as { code?: string }).code ?? "failed";
  }
}
