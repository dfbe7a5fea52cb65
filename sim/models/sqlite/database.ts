// A database in memory with the library that the store itself uses, so every statement is real.

import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { SCHEMA } from "../../../src/stores/sqlite/schema.ts";

type Value = string | number | bigint | null;

/** What the model needs beyond what the store does; both libraries have it. */
export interface SimulatedDatabase extends Connection {
  function(
    name: string,
    options: { readonly varargs: true },
    run: (...values: Value[]) => Value,
  ): void;
}

let open: (() => SimulatedDatabase) | undefined;

/** Loads the library, which takes turns of the real event loop: before a world begins. */
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
