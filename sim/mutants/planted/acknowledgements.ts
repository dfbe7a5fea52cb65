// Bugs in the acknowledgement of revocations: a revocation is forgotten before the holder has
// acknowledged it, or by the acknowledgement of another one.

import type { Mutant } from "../mutant.ts";

const modelsTest = "sim/test/models.test.ts";

export const ACKNOWLEDGEMENT_MUTANTS: readonly Mutant[] = [
  {
    name: "the store forgets a revocation when it reports it",
    file: "src/stores/memory/backend.ts",
    find: `    for (const ref of request.acknowledged) session.revoked.delete(toKey(ref));
`,
    replace: `    queueMicrotask(() => session.revoked.clear());
`,
    test: modelsTest,
  },
  {
    name: "the holder acknowledges a revocation that it did not process",
    file: "src/holder/session.ts",
    find: "    for (const ref of answer.gone) this.lost(ref);\n",
    replace: "    if (!this.inDoubt) for (const ref of answer.gone) this.lost(ref);\n",
    test: "src/holder/revocation.test.ts",
  },
  {
    name: "the holder acknowledges nothing",
    file: "src/holder/session.ts",
    find: "    this.#reported = answer.gone;\n",
    replace: "",
    test: "src/holder/revocation.test.ts",
  },
  {
    name: "the holder acknowledges all revocations at once",
    file: "src/holder/session.ts",
    find: "this.#reported.slice(0, ACKNOWLEDGED_MAX)",
    replace: "this.#reported.slice(0, 100 * ACKNOWLEDGED_MAX)",
    test: "src/holder/revocation.test.ts",
  },
  {
    name: "sqlite: an acknowledgement deletes all revocations of the resource",
    file: "src/stores/sqlite/tables.ts",
    find: `"DELETE FROM revocation WHERE session = ? AND resource = ? AND token = ?"`,
    replace: `"DELETE FROM revocation WHERE session = ? AND resource = ? AND token <> -?"`,
    store: "sqlite",
    test: modelsTest,
  },
  {
    name: "postgres: an acknowledgement deletes all revocations of the session",
    file: "sim/models/postgres/functions.ts",
    find: "row.session !== session || row.resource !== resource || row.token !== BigInt(token)",
    replace: "row.session !== session && row.token !== BigInt(token) && resource !== '' ",
    store: "postgres",
    test: modelsTest,
  },
  {
    name: "postgres: an acknowledgement in SQL does not compare the token",
    file: "src/stores/postgres/session.sql.ts",
    find: ` AND r.token = (a->>'token')::numeric;`,
    replace: ";",
    store: "postgres",
    test: "test/stores/postgres/suite.test.ts",
  },
  {
    name: "redis: an acknowledgement deletes every notice",
    file: "src/stores/redis/scripts.lua.ts",
    find: "  redis.call('SREM', notices, encodeFact('lost', session, {resource = resource, token = token}))",
    replace: "  redis.call('DEL', notices)",
    store: "redis",
    test: modelsTest,
  },
  {
    name: "etcd: an acknowledgement does not compare the token",
    file: "src/stores/etcd/renew.ts",
    find: `const when = [{ key, target: "value", is: "=", than } as const];`,
    replace: `const when = [{ key, target: "create", is: ">", than: BigInt(than.length) * 0n } as const];`,
    store: "etcd",
    test: modelsTest,
  },
  {
    name: "zookeeper: notices are deleted whatever was added since they were read",
    file: "src/stores/zookeeper/session.ts",
    find: "setData(this.#noticesNode, data, version)",
    replace: "setData(this.#noticesNode, data, version && -1)",
    store: "zookeeper",
    test: modelsTest,
  },
];
