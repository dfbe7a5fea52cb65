// In the store for PostgreSQL, and in the model's copy of the functions that the database has.

import type { Mutant } from "../mutant.ts";

const postgresModel = "sim/stores/postgres/functions.ts";

export const POSTGRES_MUTANTS: readonly Mutant[] = [
  {
    name: "postgres: a session is said to be longer than it is",
    file: "stores/postgres/store.ts",
    find: "return { ttlMs };",
    replace: "return { ttlMs: ttlMs + limitMs };",
    store: "postgres",
  },
  {
    name: "postgres: the answers of a batch are mixed up",
    file: "stores/postgres/store.ts",
    find: `limitMs)).split(" ");`,
    replace: `limitMs)).split(" ").reverse();`,
    store: "postgres",
  },
  {
    name: "postgres: renewals forget what was withdrawn",
    file: "stores/postgres/store.ts",
    find: "[sessionId, JSON.stringify(withdrawn), lockLimit(limitMs)]",
    replace: "[sessionId, JSON.stringify(withdrawn.slice(1)), lockLimit(limitMs)]",
    store: "postgres",
  },
  // What the functions in the database say is SQL, which does not run here: these are planted in the model's copy of it.
  {
    name: "postgres model: a release of an older token counts",
    file: postgresModel,
    find: `if (lease?.session !== session || lease.token !== token || !isLive(db, session)) return "notHeld";`,
    replace: `if (lease?.session !== session || !isLive(db, session)) return "notHeld";`,
    store: "postgres",
  },
  {
    name: "postgres model: granted while held",
    file: postgresModel,
    find: "return lease.session === undefined && !lease.queued && lease.attempt !== attempt;",
    replace: "return !lease.queued && lease.attempt !== attempt;",
    store: "postgres",
  },
  {
    name: "postgres model: a withdrawal takes what is not its own",
    file: postgresModel,
    find: "const wasHeld = lease?.session === session && lease.attempt === attempt;",
    replace: "const wasHeld = lease?.session === session;",
    store: "postgres",
  },
  {
    name: "postgres model: renewal revives an expired session",
    file: postgresModel,
    find: `if (row === undefined || !rowIsLive(db, row)) return "gone";`,
    replace: `if (row === undefined || row.ended !== undefined) return "gone";`,
    store: "postgres",
  },
];
