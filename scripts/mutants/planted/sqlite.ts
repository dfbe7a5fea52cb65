// In the SQLite store.

import type { Mutant } from "../mutant.ts";

const store = "stores/sqlite/store.ts";
const tables = "stores/sqlite/tables.ts";

export const SQLITE_MUTANTS: readonly Mutant[] = [
  {
    name: "sqlite: granted while held",
    file: store,
    find: "if (lookAgainInMs(row, head, attempt, at) > 0) {",
    replace: "if (lookAgainInMs(row, head, attempt, at) > 1e9) {",
    store: "sqlite",
  },
  {
    name: "sqlite: expiry by the wall clock",
    file: store,
    find: "nowMs: this.#host.now() };",
    replace: "nowMs: Math.round(this.#parts.clock.wallNow()) };",
    store: "sqlite",
  },
  {
    name: "sqlite: a release of an older token counts",
    file: tables,
    find: "WHERE resource = ? AND session = ? AND token = ?\n",
    replace: "WHERE resource = ? AND session = ? AND token >= ?\n",
    store: "sqlite",
  },
  {
    name: "sqlite: renewal revives an expired session",
    file: tables,
    find: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, at.nowMs)",
    replace: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, 0)",
    test: "test/sim-models.test.ts",
    store: "sqlite",
  },
  {
    name: "sqlite: a renewal counts from a reading of the clock that is a step old",
    file: store,
    find: `      const at = this.#now();
      const ttlMs = this.#tables.prolong`,
    replace: `      const at = this.#lately();
      const ttlMs = this.#tables.prolong`,
    store: "sqlite",
    test: "test/stores/sqlite-file.test.ts",
  },
  {
    name: "sqlite: a withdrawal takes what is not its own",
    file: tables,
    find: "WHERE resource = ? AND session = ? AND attempt = ?",
    replace: "WHERE resource = ? AND session = ? AND (attempt = ? OR 1)",
    store: "sqlite",
  },
  {
    name: "sqlite: after an error of the disk nothing was written",
    file: "stores/sqlite/failures.ts",
    find: `applied: committing ? "unknown" : "no",`,
    replace: `applied: committing ? "no" : "no",`,
    store: "sqlite",
  },
  {
    name: "sqlite: a token twice",
    file: tables,
    find: "token = token + 1, session = excluded.session",
    replace: "token = token + (session IS NOT NULL), session = excluded.session",
    store: "sqlite",
  },
  {
    name: "sqlite: the store lets go early",
    file: store,
    find: "const expiresMs = at.nowMs + ttlMs + this.#host.stepMs;",
    replace: "const expiresMs = at.nowMs + Math.round(0.8 * ttlMs) + this.#host.stepMs;",
    store: "sqlite",
  },
];
