// Opens SQLite databases in memory, with the library and the schema that the store itself uses.
// Every statement of the store therefore runs for real.

import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { SCHEMA } from "../../../src/stores/sqlite/schema.ts";

type Value = string | number | bigint | null;

/** What the model needs in addition to the store. Both libraries have it. */
export interface SimulatedDatabase extends Connection {
  function(
    name: string,
    options: { readonly varargs: true },
    run: (...values: Value[]) => Value,
  ): void;
}

let open: (() => SimulatedDatabase) | undefined;

/**
 * Loads the library. Loading needs the real event loop, so it must happen before a world begins.
 */
export async function loadDatabase(): Promise<void> {
  if (open !== undefined) return;
  const driver = await loadDriver();
  open = () => {
    const database = driver.open(":memory:") as SimulatedDatabase;
    database.exec(SCHEMA);
    return database;
  };
}

export function newDatabase(): SimulatedDatabase {
  if (open === undefined) throw new Error("Call the engine's ready() before its first world.");
  return open();
}
