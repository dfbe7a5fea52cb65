// The guards that need no server, against the conformance suite. Other behaviour of each guard has
// its own test file.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Connection, loadDriver } from "../../src/clients/sqlite/driver.ts";
import { memoryGuard } from "../../src/guards/memory/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { type GuardHarness, guardSuite } from "../../src/testing/index.ts";
import { sideBySide } from "../support/stores/store-runner.ts";

const driver = await loadDriver();

guardSuite(sideBySide, {
  name: "memory",
  rollsBack: false,
  create: () => {
    const kept: { resource: string; text: string }[] = [];
    const guard = memoryGuard();
    const inSuite = (own: typeof guard): ReturnType<GuardHarness["open"]> => ({
      advance: (source) => own.advance(source),
      highest: (resource) => own.highest(resource),
      write: (source, text) => {
        const append = (): void => void kept.push({ resource: source?.resource ?? "ledger", text });
        return source === undefined ? own.write(append) : own.write(source, append);
      },
    });
    return {
      // A process has one memory guard. A bound one only shares the data.
      open: (options) => inSuite(options === undefined ? guard : memoryGuard(options)),
      written: (resource) =>
        kept.filter((entry) => entry.resource === resource).map((entry) => entry.text),
      close: () => undefined,
    };
  },
});

guardSuite(sideBySide, {
  name: "sqlite",
  rollsBack: true,
  create: () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-guard-suite-"));
    const file = join(folder, "data.db");
    let opened: Connection[] = [];
    const connect = (): Connection => {
      const connection = driver.open(file);
      connection.exec("PRAGMA journal_mode = WAL");
      connection.exec(
        "CREATE TABLE IF NOT EXISTS entry (seq INTEGER PRIMARY KEY, resource TEXT, text TEXT)",
      );
      opened.push(connection);
      return connection;
    };
    const closeAll = (): void => {
      for (const connection of opened) connection.close();
      opened = [];
    };
    const reading = (): Connection => opened[0] ?? connect();
    return {
      open: (options) => {
        const guard = sqliteGuard(connect(), options);
        return {
          advance: (source) => guard.advance(source),
          highest: (resource) => guard.highest(resource),
          write: (source, text, { fail = false } = {}) => {
            const insert = (db: Connection): void => {
              const sql = "INSERT INTO entry (resource, text) VALUES (?, ?)";
              db.prepare(sql).run(source?.resource ?? "ledger", text);
              if (fail) throw new Error("on purpose");
            };
            if (source === undefined) guard.transaction(insert);
            else guard.transaction(source, insert);
          },
        };
      },
      written: (resource) =>
        reading()
          .prepare("SELECT text FROM entry WHERE resource = ? ORDER BY seq")
          .all(resource)
          .map((row) => String(row.text)),
      restart: closeAll,
      close: () => {
        closeAll();
        rmSync(folder, { recursive: true, force: true });
      },
    };
  },
});
