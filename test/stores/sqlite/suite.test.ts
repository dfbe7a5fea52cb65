// Runs the conformance suite on the SQLite store: real files, real time, every driver that this
// Node has.

import { mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Driver, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { sqliteStore } from "../../../src/stores/sqlite/index.ts";
import { type StoreHarness, storeSuite } from "../../../src/testing/index.ts";
import { sideBySide } from "../../support/stores/store-runner.ts";

const drivers: Driver[] = [];
for (const name of ["node:sqlite", "better-sqlite3"] as const) {
  const driver = await loadDriver(name).catch(() => undefined);
  if (driver !== undefined) drivers.push(driver);
}
if (drivers.length === 0)
  throw new Error("This Node has no SQLite driver at all: npm install better-sqlite3@12.");

for (const driver of drivers) {
  storeSuite(sideBySide, {
    name: `sqlite through ${driver.name}`,
    ttlMs: 1_000,
    guarantees: { fifo: true, durable: true },
    forgets: [
      "the file was deleted",
      "the file was replaced by an older copy",
      "rows were deleted",
    ],
    create: async () => harness(driver),
  });
}

function harness(driver: Driver): StoreHarness {
  const folder = mkdtempSync(join(tmpdir(), "tenure-suite-"));
  const file = join(folder, "store.db");
  const opened: Store[] = [];
  const withConsole = (sql: string, ...values: (string | bigint)[]): void => {
    const connection = driver.open(file);
    try {
      connection.exec("PRAGMA busy_timeout = 2000");
      connection.prepare(sql).run(...values);
    } finally {
      connection.close();
    }
  };
  const removeFiles = (): void => {
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${file}${suffix}`, { force: true });
  };
  const open = async (): Promise<Store> => {
    const store = await sqliteStore({ file, library: driver.name })(systemParts());
    opened.push(store);
    return store;
  };
  return {
    open,
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    // The backend is the file: it restarts when no process has it open.
    restart: async () => {
      for (const store of opened.splice(0)) await store.close();
    },
    forgetting: {
      "the file was deleted": async () => async () => removeFiles(),
      "the file was replaced by an older copy": async () => {
        // Everything in one file, like a backup.
        withConsole("VACUUM INTO ?", `${file}.copy`);
        return async () => {
          removeFiles();
          renameSync(`${file}.copy`, file);
        };
      },
      "rows were deleted": async () => async () => withConsole("DELETE FROM lease"),
    },
    deleteRows: async (resource) => withConsole("DELETE FROM lease WHERE resource = ?", resource),
    setToken: async (resource, token) => {
      await (await open()).close();
      withConsole(
        "INSERT INTO lease (resource, token, attempt, record, granted_ms, granted_boot_id, is_accepted) VALUES (?, ?, 'none', ?, 0, '', 1)",
        resource,
        token,
        '{"v":1,"holderId":"nobody","sessionId":"none","attempt":"none"}',
      );
    },
    close: async () => {
      for (const store of opened) await store.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
