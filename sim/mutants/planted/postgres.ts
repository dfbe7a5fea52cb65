// Bugs in the PostgreSQL store. Its functions inside the database are SQL, which the simulator does
// not run. A bug in the SQL is detected by tests on a real server, and the same bug in the model's
// copy (named "postgres, model") by a seed.

import type { Mutant } from "../mutant.ts";

const sql = "src/stores/postgres/functions.ts";
const copy = "sim/models/postgres/functions.ts";
/** Makes the same calls to a real server and to the model. */
const modelTest = "test/stores/postgres/model.test.ts";
/** Performs a real failover. */
const hostsTest = "test/stores/postgres/hosts.test.ts";

export const POSTGRES_MUTANTS: readonly Mutant[] = [
  {
    name: "postgres: the reported ttl is too long",
    file: "src/stores/postgres/store.ts",
    find: "return { ttlMs };",
    replace: "return { ttlMs: ttlMs + limitMs };",
    store: "postgres",
  },
  {
    name: "postgres: the answers of a batch are swapped",
    file: "src/stores/postgres/store.ts",
    find: `limitMs)).split(" ");`,
    replace: `limitMs)).split(" ").reverse();`,
    store: "postgres",
  },
  {
    name: "postgres: renewals do not repeat the first withdrawal",
    file: "src/stores/postgres/store.ts",
    find: "[JSON.stringify(withdrawn), JSON.stringify(acknowledged)]",
    replace: "[JSON.stringify(withdrawn.slice(1)), JSON.stringify(acknowledged)]",
    store: "postgres",
  },
  {
    name: "postgres: the first waiter ignores its notification",
    file: "src/stores/postgres/waker.ts",
    find: "if (place === 0) subscription.notify();",
    replace: "if (place === 0) void subscription;",
    store: "postgres",
  },
  {
    name: "postgres: leases lost in a failover are not checked for",
    file: "src/stores/shared/era-tracker.ts",
    find: "filter(([, held]) => held.floor !== floor)",
    replace: "filter(([, held]) => held.floor === -floor)",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres: a release undone by a failover is not repeated",
    file: "src/stores/postgres/store.ts",
    find: "this.#givenBack.doubt(this.#parts.clock.now());",
    replace: "",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres, SQL: another server process continues the same era",
    file: sql,
    find: "WHERE e.server = this_server;",
    replace: "WHERE e.server <> '';",
    store: "postgres",
    test: hostsTest,
  },
  {
    name: "postgres, SQL: a release with an older token succeeds",
    file: sql,
    find: "x.session = p_session AND x.token = p_token",
    replace: "x.session = p_session",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: a held lease is granted again",
    file: sql,
    find: "x.resource = p_resource AND x.session IS NULL AND NOT x.queued",
    replace: "x.resource = p_resource AND NOT x.queued",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: a withdrawal frees a lease of another attempt",
    file: sql,
    find: "WHERE resource = p_resource AND session = p_session AND attempt = p_attempt;",
    replace: "WHERE resource = p_resource AND session = p_session;",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, SQL: a renewal revives an expired session",
    file: sql,
    find: `WHERE s.id = p_session AND \${LIVE} RETURNING`,
    replace: "WHERE s.id = p_session AND s.ended IS NULL RETURNING",
    store: "postgres",
    test: modelTest,
  },
  {
    name: "postgres, model: another server process continues the same era",
    file: copy,
    find: "if (db.era.server === db.server) return",
    replace: "if (db.era.server !== 0) return",
    store: "postgres",
  },
  {
    name: "postgres, model: a release with an older token succeeds",
    file: copy,
    find: `if (lease?.session !== session || lease.token !== token || !isLive(db, session)) return "notHeld";`,
    replace: `if (lease?.session !== session || !isLive(db, session)) return "notHeld";`,
    store: "postgres",
  },
  {
    name: "postgres, model: a held lease is granted again",
    file: copy,
    find: "return lease.session === undefined && !lease.queued && lease.attempt !== attempt;",
    replace: "return !lease.queued && lease.attempt !== attempt;",
    store: "postgres",
  },
  {
    name: "postgres, model: a withdrawal frees a lease of another attempt",
    file: copy,
    find: "const wasHeld = lease?.session === session && lease.attempt === attempt;",
    replace: "const wasHeld = lease?.session === session;",
    store: "postgres",
  },
  {
    name: "postgres, model: a renewal revives an expired session",
    file: copy,
    find: `if (row === undefined || !rowIsLive(db, row)) return "gone";`,
    replace: `if (row === undefined || row.ended !== undefined) return "gone";`,
    store: "postgres",
    test: "sim/test/models.test.ts",
  },
];
