// Bugs in the Redis store and its Lua scripts. The model runs the scripts as they ship.

import type { Mutant } from "../mutant.ts";

const redisGrants = "src/stores/redis/grant-scripts.ts";
const redisLibrary = "src/stores/redis/script-library.ts";
const redisScripts = "src/stores/redis/scripts.ts";

export const REDIS_MUTANTS: readonly Mutant[] = [
  {
    name: "redis: a release frees a successor's lease",
    file: redisGrants,
    find: "if lease.session ~= session or lease.token ~= token or redis.call('EXISTS', KEYS[1]) == 0 then",
    replace: "if not lease.session then",
    store: "redis",
  },
  {
    name: "redis: a release with an older token succeeds",
    file: redisGrants,
    find: "if lease.session ~= session or lease.token ~= token or redis",
    replace: "if lease.session ~= session or redis",
    store: "redis",
  },
  {
    name: "redis: a held lease is granted again",
    file: redisGrants,
    find: "if text then state, last, from = string.match(text, '^([FL])(%d+)()') end",
    replace: "if text then state, last, from = string.match(text, '^([FLHK])(%d+)()') end",
    store: "redis",
  },
  {
    name: "redis: the first waiter takes a held lease",
    file: redisGrants,
    find: "if holder or (first and first ~= attempt",
    replace: "if (holder and not lease.queued) or (first and first ~= attempt",
    store: "redis",
  },
  {
    name: "redis: an expired session is granted leases",
    file: redisGrants,
    find: "if got[3] and not got[2] and counter",
    replace: "if not got[2] and counter",
    store: "redis",
  },
  {
    name: "redis: a withdrawal frees a lease of another attempt",
    file: redisLibrary,
    find: "if lease.session == session and lease.attempt == attempt and lives(session) then",
    replace: "if lease.session == session and lives(session) then",
    store: "redis",
  },
  {
    name: "redis: a renewed session expires before its ttl",
    file: redisScripts,
    find: "redis.call('PEXPIRE', KEYS[1], ttl + 1)",
    replace: "redis.call('PEXPIRE', KEYS[1], math.floor(ttl * 0.9))",
    store: "redis",
  },
  {
    name: "redis: the first ttl is rounded down to seconds",
    file: redisScripts,
    find: "'PX', ARGV[2] + 1)\nfor",
    replace: "'PX', math.floor(ARGV[2] / 1000) * 1000)\nfor",
    store: "redis",
  },
  {
    name: "redis: scripts are not sent again after a restart",
    file: "src/stores/redis/requests.ts",
    find: 'replyCode(error) !== "NOSCRIPT") return failed(error);',
    replace: 'replyCode(error) !== "NOSUCH") return failed(error);',
    store: "redis",
  },
  {
    name: "redis: a silent connection is kept",
    file: "src/stores/redis/requests.ts",
    find: "if (line.heard === heard) this.#silent(line);",
    replace: "if (line.heard < heard) this.#silent(line);",
    store: "redis",
  },
  {
    name: "redis: a release does not notify waiters",
    file: redisLibrary,
    find: "tell(resource, first and ('free ' .. first) or 'free')",
    replace: "return",
    store: "redis",
  },
  {
    name: "redis: a waiter that failed to subscribe never retries",
    file: "src/stores/redis/channels.ts",
    find: "else if (this.#hasFailed) this.#back();",
    replace: "",
    store: "redis",
    test: "src/stores/redis/channels.test.ts",
  },
];
