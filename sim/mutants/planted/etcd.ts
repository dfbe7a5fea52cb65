// Bugs in the etcd store: its transactions, what it concludes from watches, and its renewals.

import type { Mutant } from "../mutant.ts";

const grant = "src/stores/etcd/grant.ts";
const wait = "src/stores/etcd/wait.ts";
const store = "src/stores/etcd/store.ts";
const session = "src/stores/etcd/session.ts";
const notes = "src/stores/etcd/notes.ts";
/** The conformance suite, run on the models. */
const modelsTest = "sim/test/models.test.ts";
const transactionsTest = "sim/test/etcd.test.ts";
const waitTest = "src/stores/etcd/wait.test.ts";
const batchTest = "src/stores/etcd/batch.test.ts";
const roundTripsTest = "test/stores/etcd/round-trips.test.ts";

const MUTANTS: readonly Omit<Mutant, "store">[] = [
  {
    name: "etcd: a release with an older token succeeds",
    file: session,
    find: "return attempt?.revision === token ? attempt : undefined;",
    replace: "return attempt?.revision === token ? attempt : attempt;",
    test: modelsTest,
  },
  {
    name: "etcd: a held lease is granted again",
    file: grant,
    find: "const than = (options.released ?? 0n) + 1n;",
    replace: "const than = (options.released ?? 0n) + 2n ** 40n;",
  },
  {
    name: "etcd: a waiter is granted the resource while an older key exists",
    file: wait,
    find: "    const [holder] = this.#keys.values();\n    if (holder === undefined) return undefined;",
    replace:
      "    const holder = [...this.#keys.values()].at(-1);\n    if (holder === undefined) return undefined;",
  },
  {
    name: "etcd: a withdrawal deletes the keys of attempts with similar names",
    file: "src/clients/etcd/names.ts",
    find: "\\x01`) };",
    replace: "~`) };",
    test: transactionsTest,
  },
  {
    name: "etcd: a waiter that gave up is granted the resource",
    file: grant,
    find: "attempt === undefined ? [remove] : [remove, ...farewell(attempt)];",
    replace: "attempt === undefined ? [remove] : farewell(attempt);",
    test: modelsTest,
  },
  {
    name: "etcd: a late copy of an ended attempt is granted",
    file: grant,
    find: "if (unanswered === 0) return ops;",
    replace: "if (unanswered >= 0) return ops;",
    test: transactionsTest,
  },
  {
    name: "etcd: a request that is repeated after a revocation is granted",
    file: grant,
    find: "    { put: { key: mark, value: Buffer.alloc(0), lease } },\n",
    replace: "",
    test: transactionsTest,
  },
  {
    name: "etcd: a busy attempt in doubt leaves no mark",
    file: store,
    find: "if (attempt.unanswered > 0) await this.withdraw(request);\n    else",
    replace: "",
    test: "test/stores/etcd/faults.test.ts",
  },
  {
    name: "etcd: a revocation does not notify the holder",
    file: grant,
    find: "    { put: { key: note, value: Buffer.from(String(token)), lease } },\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "etcd: a waiter does not notice that the holder has released",
    file: wait,
    find: "if (known !== undefined && known.createRevision < kv.modRevision) this.#keys.delete(name);",
    replace: "void known;",
    test: modelsTest,
  },
  {
    name: "etcd: a handoff is not notified",
    file: wait,
    find: "    session.events?.granted(toGrant(attempt));\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "etcd: renewals do not report handoffs",
    file: wait,
    find: "    session.unaccepted.add(attempt);\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "etcd: renewals do not read the queues",
    file: store,
    find: "const picked = resources.slice(0, QUEUES_MAX);",
    replace: "const picked = resources.slice(0, 0 * QUEUES_MAX);",
    test: roundTripsTest,
  },
  {
    name: "etcd: a renewal accepts every handoff",
    file: store,
    find: "      granted: [...session.unaccepted].map(toGrant),\n",
    replace:
      "      granted: [...session.unaccepted].map((each) => (session.unaccepted.delete(each), toGrant(each))),\n",
    test: modelsTest,
  },
  {
    name: "etcd: a waiter whose key is gone counts as waiting",
    file: wait,
    find: "        waiter.session.waiting.delete(waiter);\n",
    replace: "",
    test: waitTest,
  },
  {
    name: "etcd: a read in flight brings back a deleted key",
    file: wait,
    find: "if ((this.#deletions.get(name) ?? 0n) <= revision) this.#keys.set(name, kv);",
    replace: "this.#keys.set(name, kv);",
    test: waitTest,
  },
  {
    name: "etcd: an older read replaces a newer one",
    file: wait,
    find: "    if (revision < this.#revision) return;\n",
    replace: "",
    test: waitTest,
  },
  {
    name: "etcd: what is written before a watch begins is not read",
    file: wait,
    find: "if (revision > this.#revision) void this.#read();",
    replace: "void revision;",
    test: waitTest,
  },
  {
    name: "etcd: the holder is notified of the first waiter only",
    file: wait,
    find: "if (waiter === undefined || notice === this.#notice) return;",
    replace: 'if (waiter === undefined || this.#notice !== "") return;',
    test: waitTest,
  },
  {
    name: "etcd: an attempt does not give way to a lower rank",
    file: wait,
    find: "if (attempt.givenUp !== revision && !(await this.#isFirst(attempt)))",
    replace: "if (attempt.givenUp !== revision && revision < 0n)",
    test: modelsTest,
  },
  {
    name: "etcd: an attempt that gives way loses its place in its rank",
    file: grant,
    find: "const since = names.readQueueKey(key)?.since ?? revision;",
    replace: "const since = revision;",
    test: transactionsTest,
  },
  {
    name: "etcd: the notes of a session are not watched",
    file: notes,
    find: "      session.closeWatch ??= this.#watch(session);\n",
    replace: "      session.closeWatch ??= () => this.#watch(session);\n",
    test: modelsTest,
  },
  {
    name: "etcd: a grant overtakes a release that is in flight",
    file: "src/stores/etcd/batch.ts",
    find: "      await release.reply.catch(() => undefined);\n",
    replace: "",
    test: batchTest,
  },
  {
    name: "etcd: the reported ttl is a second too long",
    file: "src/stores/etcd/renew.ts",
    find: "return { ttlMs: alive.ttl * 1_000, revision,",
    replace: "return { ttlMs: (alive.ttl + 1) * 1_000, revision,",
  },
];

export const ETCD_MUTANTS: readonly Mutant[] = MUTANTS.map((mutant) => ({
  ...mutant,
  store: "etcd",
}));
