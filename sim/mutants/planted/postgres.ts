// In the store for PostgreSQL. What it runs inside the database is SQL, which no simulated day does: a bug planted there is found by
// the tests that ask a real server, and the same bug in the model's copy of it (a name says so) by a seed.

import type { Mutant } from "../mutant.ts";

const sql = "src/stores/postgres/functions.ts";
const copy = "sim/models/postgres/functions.ts";
/** The real server and the model, asked the same. */
const modelTest = "test/stores/postgres/model.test.ts";
/** A real failover. */
const hostsTest = "test/stores/postgres/hosts.test.ts";

export const POSTGRES_MUTANTS: readonly Mutant[] = [
  {
    name: "postgres: a session is said to be longer than it is",
    file: "src/stores/postgres/store.ts",
    find: "return { ttlMs };",
    replace: "return { ttlMs: ttlMs + limitMs };",
    store: "postgres",
  },
  {
    name: "postgres: the answers of a batch are mixed up",
    file: "src/stores/postgres/store.ts",
    find: `limitMs)).split(" ");`,
    replace: `limitMs)).split(" ").reverse();`,
    store: "postgres",
  },
  {
    name: "postgres: renewals forget what was withdrawn",
    file: "src/stores/postgres/store.ts",
    find: "[JSON.stringify(withdrawn), JSON.stringify(acknowledged)]",
    replace: "[JSON.stringify(withdrawn.slice(1)), JSON.stringify(acknowledged)]",
    store: "postgres",
  },
  {
    name: "postgres: the first in line does not look when it is told",
    file: "src/stores/postgres/waker.ts",
    find: "if (place === 0) subscription.notify();",
    replace: "if (place === 0) void subscription;",
    store: "postgres",
  },
  {
    name: "postgres: what a failover lost is not looked for",
    file: "src/stores/shared/era-tracker.ts",
    find: "filter(([, held]) => held.floor !== floor)",
    replace: "filter(([, held]) => held.floor === -floor)",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres: what a failover has undone is not given back again",
    file: "src/stores/postgres/store.ts",
    find: "this.#givenBack.doubt(this.#parts.clock.now());",
    replace: "",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres, SQL: another server process goes on with the same era",
    file: sql,
    find: "WHERE e.server = this_server;",
    replace: "WHERE e.server <> '';",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres, SQL: a release of an older token counts",
    file: sql,
    find: "x.session = p_session AND x.token = p_token",
    replace: "x.session = p_session",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: granted while held",
    file: sql,
    find: "x.resource = p_resource AND x.session IS NULL AND NOT x.queued",
    replace: "x.resource = p_resource AND NOT x.queued",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: a withdrawal takes what is not its own",
    file: sql,
    find: "WHERE resource = p_resource AND session = p_session AND attempt = p_attempt;",
    replace: "WHERE resource = p_resource AND session = p_session;",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: renewal revives an expired session",
    file: sql,
    find: `WHERE s.id = p_session AND \${LIVE} RETURNING`,
    replace: "WHERE s.id = p_session AND s.ended IS NULL RETURNING",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, the model's copy: another server process goes on with the same era",
    file: copy,
    find: "if (db.era.server === db.server) return",
    replace: "if (db.era.server !== 0) return",
    store: "postgres",
  },
  {
    name: "postgres, the model's copy: a release of an older token counts",
    file: copy,
    find: `if (lease?.session !== session || lease.token !== token || !isLive(db, session)) return "notHeld";`,
    replace: `if (lease?.session !== session || !isLive(db, session)) return "notHeld";`,
    store: "postgres",
  },
  {
    name: "postgres, the model's copy: granted while held",
    file: copy,
    find: "return lease.session === undefined && !lease.queued && lease.attempt !== attempt;",
    replace: "return !lease.queued && lease.attempt !== attempt;",
    store: "postgres",
  },
  {
    name: "postgres, the model's copy: a withdrawal takes what is not its own",
    file: copy,
    find: "const wasHeld = lease?.session === session && lease.attempt === attempt;",
    replace: "const wasHeld = lease?.session === session;",
    store: "postgres",
  },
  {
    name: "postgres, the model's copy: renewal revives an expired session",
    file: copy,
    find: `if (row === undefined || !rowIsLive(db, row)) return "gone";`,
    replace: `if (row === undefined || row.ended !== undefined) return "gone";`,
    store: "postgres",
    test: "sim/test/models.test.ts",
  },
];
