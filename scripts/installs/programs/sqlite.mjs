// Runs the SQLite store with better-sqlite3 (not node:sqlite), and the guard on a better-sqlite3
// database.
import assert from "node:assert/strict";
import Database from "better-sqlite3";
import { connect } from "tenure";
import { sqliteGuard } from "tenure/guards/sqlite";
import { sqliteStore } from "tenure/stores/sqlite";

const tenure = await connect(sqliteStore({ file: "./installs.db", library: "better-sqlite3" }));
const database = new Database("./ledger.db");
database.exec("CREATE TABLE ledger (value TEXT)");
const guard = sqliteGuard(database);
const first = await tenure.acquire("installs/lease", { waitMs: 20_000 });
const waiting = tenure.acquire("installs/lease", { waitMs: 20_000 });
await first.release();
const second = await waiting;
assert.ok(second.token > first.token);
guard.transaction(second, (db) => db.prepare("INSERT INTO ledger VALUES (?)").run("written"));
assert.throws(() => guard.transaction(first, () => undefined));
assert.equal(database.prepare("SELECT count(*) AS n FROM ledger").get().n, 1);
await tenure.close();
database.close();
console.log("passed");
