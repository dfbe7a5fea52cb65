// Bugs in the SQLite store.

import type { Mutant } from "../mutant.ts";

const store = "src/stores/sqlite/store.ts";
const grant = "src/stores/sqlite/grant.ts";
const wait = "src/stores/sqlite/wait.ts";
const tables = "src/stores/sqlite/tables.ts";

export const SQLITE_MUTANTS: readonly Mutant[] = [
  {
    name: "sqlite: a held lease is granted again",
    file: tables,
    find: "return end !== undefined && end.bootId === at.bootId && end.expiresMs > at.nowMs;",
    replace:
      "return end !== undefined && end.bootId === at.bootId && end.expiresMs > at.nowMs + 1e6;",
    store: "sqlite",
  },
  {
    name: "sqlite: expiry uses the wall clock",
    file: store,
    find: "nowMs: this.#host.now() };",
    replace: "nowMs: Math.round(this.#parts.clock.wallNow()) };",
    store: "sqlite",
  },
  {
    name: "sqlite: a release with an older token succeeds",
    file: tables,
    find: "WHERE resource = ? AND session = ? AND token = ?\n",
    replace: "WHERE resource = ? AND session = ? AND token >= ?\n",
    store: "sqlite",
  },
  {
    name: "sqlite: a renewal revives an expired session",
    file: tables,
    find: "this.#sql.renewSession.get(from, from, id, bootId, nowMs)",
    replace: "this.#sql.renewSession.get(from, from, id, bootId, 0)",
    test: "sim/test/models.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a renewal uses a clock reading that is one step old",
    file: store,
    find: "this.#transact(limitMs, this.#readNow, (grants) => grants.renew(request))",
    replace: "this.#transact(limitMs, this.#readLately, (grants) => grants.renew(request))",
    store: "sqlite",
    test: "test/stores/sqlite/file.test.ts",
  },
  {
    name: "sqlite: a withdrawal frees a lease of another attempt",
    file: tables,
    find: "WHERE resource = ? AND session = ? AND attempt = ?",
    replace: "WHERE resource = ? AND session = ? AND (attempt = ? OR 1)",
    store: "sqlite",
  },
  {
    name: "sqlite: a disk error at commit is reported as not applied",
    file: "src/clients/sqlite/failures.ts",
    find: `applied: committing ? "unknown" : "no",`,
    replace: `applied: committing ? "no" : "no",`,
    store: "sqlite",
  },
  {
    name: "sqlite: a token is issued twice",
    file: tables,
    find: "      token = max(token + 1, excluded.token), session",
    replace: "      token = token + (lease.session IS NOT NULL), session",
    store: "sqlite",
  },
  {
    name: "sqlite: sessions expire early",
    file: tables,
    find: "const ends = [from + ttlMs, from + quietAfterMs] as const;",
    replace: "const ends = [from + Math.round(0.8 * ttlMs), from + quietAfterMs] as const;",
    store: "sqlite",
  },
  {
    name: "sqlite: an expired session stays in the file after its lease was taken",
    file: grant,
    find: "if (sessionEnd.bootId === this.#at.bootId) this.endSession(session);\n    else this.#tables",
    replace: "if (sessionEnd.bootId !== this.#at.bootId) this.#tables",
    store: "sqlite",
    test: "test/stores/sqlite/order.test.ts",
  },
  {
    name: "sqlite: the end of a session does not hand off",
    file: grant,
    find: "    for (const { resource } of wanted) this.#handOff(resource);\n",
    replace: "    void wanted;\n",
    store: "sqlite",
  },
  {
    name: "sqlite: a release does not hand off",
    file: grant,
    find: "    if (this.#tables.isWanted(resource)) this.#handOff(resource, { preferred });\n",
    replace: "    void preferred;\n",
    store: "sqlite",
  },
  {
    name: "sqlite: a resource is handed off to a quiet session",
    file: tables,
    find: "AND (session.quiet_ms > ? OR session.id = ?)",
    replace: "AND (session.expires_ms > ? OR session.id = ?)",
    store: "sqlite",
    test: "sim/test/models.test.ts",
  },
  {
    name: "sqlite: the newest waiter is served first",
    file: tables,
    find: "DESC, waiter.rank, waiter.place LIMIT 1",
    replace: "DESC, waiter.rank, waiter.place DESC LIMIT 1",
    store: "sqlite",
  },
  {
    name: "sqlite: a waiter that gave up stays in the queue",
    file: grant,
    find: "    this.#tables.leaveQueue(attempt);\n    if (this.#tables.withdraw",
    replace: "    if (this.#tables.withdraw",
    store: "sqlite",
    test: "sim/test/models.test.ts",
  },
  {
    name: "sqlite: a handoff counts as accepted at once",
    file: grant,
    find: "const isAccepted = attempt === by.attempt;",
    replace: "const isAccepted = true;",
    store: "sqlite",
    test: "sim/test/models.test.ts",
  },
  {
    name: "sqlite: no process checks whether the holder has expired",
    file: wait,
    find: "        if (isFree) expired.push(resource);\n",
    replace: "",
    store: "sqlite",
  },
  {
    name: "sqlite: an old clock reading lets an ended session be granted",
    file: tables,
    find: "this.#sql.deleteSession.run(id);",
    replace: "void id;",
    store: "sqlite",
    test: "test/stores/sqlite/order.test.ts",
  },
  {
    name: "sqlite: a waiter that missed a write polls much later",
    file: "src/stores/sqlite/commits.ts",
    find: "BLIND_CHECK_MS : IDLE_CHECK_MS;",
    replace: "BLIND_CHECK_MS : 10 * IDLE_CHECK_MS;",
    test: "src/stores/sqlite/commits.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a write does not wake waiters",
    file: "src/stores/sqlite/commits.ts",
    find: "    if (this.#checks === 0) return;",
    replace: "    if (this.#checks >= 0) return;",
    store: "sqlite",
    test: "src/stores/sqlite/commits.test.ts",
  },
];
