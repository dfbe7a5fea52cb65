// The raw floor of the single machine: two durable upserts into a file of SQLite.

import { join } from "node:path";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import type { Floor } from "./locks.ts";

export async function sqliteFloor(folder: string): Promise<Floor & { close(): void }> {
  const database = (await loadDriver()).open(join(folder, "floor.db"));
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  database.exec("CREATE TABLE lock (name TEXT PRIMARY KEY, holder TEXT, token INTEGER)");
  const upsert = database.prepare(
    "INSERT INTO lock VALUES (?, ?, 1) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = token + 1",
  );
  return {
    pair: async (index) => {
      upsert.run(`lock ${index}`, "me");
      upsert.run(`lock ${index}`, "");
    },
    close: () => database.close(),
  };
}
