// Bugs in how tokens continue after a backend has lost data (src/core/era.ts and its use in the
// stores), and in the parsing of received text.

import type { Mutant } from "../mutant.ts";

const eraTest = "src/core/era.test.ts";
const redisTest = "test/stores/redis/eras.test.ts";

export const ERA_MUTANTS: readonly Mutant[] = [
  {
    name: "a new era starts directly above the last known token",
    file: "src/core/era.ts",
    find: "higher(clock, lastKnown + ERA_GAP + (-ahead * 7n) / 8n)",
    replace: "higher(clock, lastKnown + 1n)",
    test: eraTest,
  },
  {
    name: "two stale replicas start at the same token",
    file: "src/core/era.ts",
    find: "lastKnown + ERA_GAP + (-ahead * 7n) / 8n",
    replace: "lastKnown + ERA_GAP",
    test: eraTest,
  },
  {
    name: "two stale replicas start at the same token if tokens are far ahead of the clock",
    file: "src/core/era.ts",
    find: "(3n * ERA_GAP ** 2n) / 4n / (ERA_GAP + ahead);",
    replace: "(ahead < 0n ? 0n : ERA_GAP);",
    test: eraTest,
  },
  {
    name: "a resource that is new in an era starts at the era's floor",
    file: "src/core/era.ts",
    find: "  return higher(floor, clock);",
    replace: "  return clock < 0n ? clock : floor;",
    test: eraTest,
  },
  {
    name: "redis: another server process continues the same era",
    file: "src/stores/redis/era.lua.ts",
    find: "if server == 'unknown' or string.match(",
    replace: "if server == 'unknown' and string.match(",
    store: "redis",
    test: redisTest,
  },
  {
    name: "redis: a script is loaded without its era",
    file: "src/stores/redis/requests.ts",
    find: 'this.#evaluate(line, ["eval", text], call, true, answered, failed);',
    replace: 'this.#evaluate(line, ["eval", text], call, keepsScripts, answered, failed);',
    store: "redis",
    test: redisTest,
  },
  {
    name: "redis: a lost counter starts at 1",
    file: "src/stores/redis/grant.lua.ts",
    find: "    startEra(last or '0')\n",
    replace: "    redis.call('SET', base .. 'token', last or '0')\n",
    store: "redis",
    test: "test/stores/redis/keys.test.ts",
  },
  {
    name: "sqlite: tokens do not follow the clock",
    file: "src/stores/sqlite/tables.ts",
    find: "      token = max(token + 1, excluded.token), session",
    replace: "      token = token + 1, session",
    store: "sqlite",
    test: "test/stores/sqlite/eras.test.ts",
  },
  {
    name: "sqlite: the holder of a deleted row is not notified",
    file: "src/stores/sqlite/schema.ts",
    find: "CREATE TRIGGER lease_deleted AFTER DELETE ON lease WHEN OLD.session IS NOT NULL BEGIN",
    replace: "CREATE TRIGGER lease_deleted AFTER DELETE ON lease WHEN OLD.session IS NULL BEGIN",
    store: "sqlite",
    test: "test/stores/sqlite/eras.test.ts",
  },
  {
    name: "postgres: a malformed notification throws",
    file: "src/stores/postgres/wait.ts",
    find: "if (fact === undefined || events === undefined || !this.#parts.isCurrent(fact)) return;",
    replace: "if (fact === undefined || events === undefined) throw new Error(text);",
    store: "postgres",
    test: "test/stores/postgres/hostile.test.ts",
  },
];
