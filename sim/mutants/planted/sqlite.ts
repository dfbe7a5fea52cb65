// Bugs in the SQLite store.

import type { Mutant } from "../mutant.ts";

const store = "src/stores/sqlite/store.ts";
const tables = "src/stores/sqlite/tables.ts";

export const SQLITE_MUTANTS: readonly Mutant[] = [
  {
    name: "sqlite: a held lease is granted again",
    file: store,
    find: "if (lookAgainInMs(row, head, attempt, at) > 0) {",
    replace: "if (lookAgainInMs(row, head, attempt, at) > 1e9) {",
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
    find: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, at.nowMs)",
    replace: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, 0)",
    test: "sim/test/models.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a renewal uses a clock reading that is one step old",
    file: store,
    find: `      const at = this.#now();
      const ttlMs = this.#tables.prolong`,
    replace: `      const at = this.#lately();
      const ttlMs = this.#tables.prolong`,
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
    find: "SET token = max(token + 1, excluded.token),",
    replace: "SET token = token + (session IS NOT NULL),",
    store: "sqlite",
  },
  {
    name: "sqlite: sessions expire early",
    file: store,
    find: "const expiresMs = at.nowMs + ttlMs + this.#host.stepMs;",
    replace: "const expiresMs = at.nowMs + Math.round(0.8 * ttlMs) + this.#host.stepMs;",
    store: "sqlite",
  },
  {
    name: "sqlite: an ended session is deleted with the time its leases became free",
    file: tables,
    find: "UPDATE session SET ttl_ms = 0, expires_ms = min(expires_ms, ?) WHERE id = ? AND ttl_ms > 0",
    replace: "DELETE FROM session WHERE ? >= 0 AND id = ?",
    store: "sqlite",
  },
  {
    name: "sqlite: ended sessions are deleted at once",
    file: tables,
    find: "at.nowMs - HEAD_START_MS);",
    replace: "at.nowMs);",
    store: "sqlite",
  },
  {
    name: "sqlite: an old clock reading shortens the head start",
    file: store,
    find: "Math.round(at.nowMs + this.#parts.clock.now() - this.#readAt)",
    replace: "at.nowMs",
    test: "test/stores/sqlite/order.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: an ended session is revived after a reboot",
    file: tables,
    find: "iif(ttl_ms > 0, ttl_ms + ?, 0)",
    replace: "iif(ttl_ms > 0, ttl_ms + ?, 1000)",
    test: "test/stores/sqlite/order.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a waiter that missed a write polls much later",
    file: "src/stores/sqlite/waker.ts",
    find: "BLIND_LOOK_MS : IDLE_LOOK_MS;",
    replace: "BLIND_LOOK_MS : 10 * IDLE_LOOK_MS;",
    test: "src/stores/sqlite/waker.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a write does not wake waiters",
    file: "src/stores/sqlite/waker.ts",
    find: "    if (this.#looks === 0) return;",
    replace: "    if (this.#looks >= 0) return;",
    store: "sqlite",
  },
];
