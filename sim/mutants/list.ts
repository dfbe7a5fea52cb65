// Planted bugs: each changes one place of the shipping code, as a hurried hand might, or where its name says so the same place in
// the model's copy of what a database runs. `find` must be in the file exactly once. To add one, add an entry; `npm run mutants
// -- NAME` runs it alone.

import type { Mutant } from "./mutant.ts";
import { ACKNOWLEDGEMENT_MUTANTS } from "./planted/acknowledgements.ts";
import { ERA_MUTANTS } from "./planted/eras.ts";
import { HOLDER_MUTANTS } from "./planted/holder.ts";
import { LIVENESS_MUTANTS } from "./planted/liveness.ts";
import { ONCE_MUTANTS } from "./planted/once.ts";
import { POSTGRES_MUTANTS } from "./planted/postgres.ts";
import { REDIS_MUTANTS } from "./planted/redis.ts";
import { SQLITE_MUTANTS } from "./planted/sqlite.ts";
import { ZOOKEEPER_MUTANTS } from "./planted/zookeeper.ts";

export type { Mutant } from "./mutant.ts";

const machine = "src/core/session-machine.ts";
/** The conformance suite, on the models. */
const modelsTest = "sim/test/models.test.ts";
const machineTest = "src/core/session-machine.test.ts";
const lease = "src/holder/held-lease.ts";
const memory = "src/stores/memory/index.ts";

export const MUTANTS: readonly Mutant[] = [
  ...ACKNOWLEDGEMENT_MUTANTS,
  ...ERA_MUTANTS,
  ...HOLDER_MUTANTS,
  ...LIVENESS_MUTANTS,
  ...ONCE_MUTANTS,
  ...SQLITE_MUTANTS,
  ...POSTGRES_MUTANTS,
  ...REDIS_MUTANTS,
  ...ZOOKEEPER_MUTANTS,
  {
    name: "deadline from receipt",
    file: "src/holder/session.ts",
    find: `type: "renewed", now: clock.now(), sentAt, grantedTtlMs`,
    replace: `type: "renewed", now: clock.now(), sentAt: clock.now(), grantedTtlMs`,
  },
  {
    name: "no margin",
    file: "src/core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs + 0 * marginMs",
  },
  {
    name: "margin a tenth too small",
    file: "src/core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs - 0.9 * marginMs",
  },
  {
    name: "guard off by one",
    file: "src/core/token.ts",
    find: "offered >= highest;",
    replace: "offered >= highest - 1n;",
  },
  {
    name: "equal token refused",
    file: "src/core/token.ts",
    find: "offered >= highest;",
    replace: "offered > highest;",
  },
  {
    name: "guard does not remember",
    file: "src/guards/memory/index.ts",
    find: "highest.set(source.resource, admit(source, highest.get(source.resource)));",
    replace: "admit(source, highest.get(source.resource));",
  },
  {
    name: "doubt ignored by check",
    file: lease,
    find: "this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.confirmedUntil",
    replace: "this.#session.safeUntil",
  },
  {
    name: "timer instead of check",
    file: lease,
    find: "if (this.#acting && now < until) return this.token;",
    replace: "if (this.#acting && until > 0) return this.token;",
  },
  {
    name: "a late yes revives",
    file: machine,
    find: `      if (event.now >= state.safeUntil) return outOfTime();
      // The late answer`,
    replace: "      // The late answer",
    test: machineTest,
  },
  {
    name: "a late answer to an older renewal counts",
    file: machine,
    find: "if (event.sentAt <= proofAfter(state)) return { state, commands: [] };",
    replace: "",
    test: machineTest,
  },
  {
    name: "a refused session goes on",
    file: machine,
    find: `return end("expired", "the store says that the session is gone");`,
    replace: "return { state, commands: [] };",
  },
  {
    name: "a jump of the clock is ignored",
    file: machine,
    find: `case "clockJumped":
      return end(`,
    replace: `case "clockJumped":
      if (event.type === "clockJumped") return { state, commands: [] };
      return end(`,
  },
  {
    name: "a step of the wall clock is ignored",
    file: machine,
    find: "return distrust(state, event.now);",
    replace: "return { state, commands: [] };",
    test: machineTest,
  },
  {
    name: "an answer from before a step of the wall clock counts",
    file: machine,
    find: `kind: "doubt", sentAfter: now, failures }`,
    replace: `kind: "doubt", sentAfter: state.sentAt, failures }`,
    test: machineTest,
  },
  {
    name: "a jump while opening is ignored",
    file: "src/holder/sessions.ts",
    find: `if (jumps.has("certain")) session.close(false);
      else`,
    replace: "",
  },
  {
    name: "renewals too seldom",
    file: machine,
    find: 'event.sentAt + timing.renewEveryMs - event.now) },\n      { do: "lookAt"',
    replace: 'event.sentAt + 3 * timing.renewEveryMs - event.now) },\n      { do: "lookAt"',
  },
  {
    name: "closing ends a session in use",
    file: machine,
    find: `return end("released", "the session was closed", !event.inUse);`,
    replace: `return end("released", "the session was closed", true);`,
    test: machineTest,
  },
  {
    name: "release does not wait for work",
    file: "src/core/lease-machine.ts",
    find: "return state.work === 0\n        ? RELEASE",
    replace: "return state.work >= 0\n        ? RELEASE",
  },
  {
    name: "one of two works settles for both",
    file: "src/core/lease-machine.ts",
    find: "return state.work <= 1\n        ? RELEASE",
    replace: "return state.work <= 2\n        ? RELEASE",
  },
  {
    name: "draining takes new work",
    file: lease,
    find: `if (this.#state.kind === "draining" || this.#state.kind === "overrun") {`,
    replace: `if (this.#state.kind === "overrun") {`,
  },
  {
    name: "work starts without a check",
    file: lease,
    find: `    this.check();
    this.#feed({ type: "workStarted" });`,
    replace: `    this.#feed({ type: "workStarted" });`,
  },
  {
    name: "a grant of an ended session is taken",
    file: "src/holder/acquire.ts",
    find: "if (!session.checkDeadline(clock.now())) return undefined;",
    replace: "",
  },
  {
    name: "attempts are not new",
    file: "src/holder/session.ts",
    find: "this.#attempts += 1;",
    replace: "this.#attempts = 1;",
  },
  {
    name: "an unknown attempt is not withdrawn",
    file: "src/holder/acquire.ts",
    find: `if (lease === undefined && atStore !== "nothing")`,
    replace: `if (lease === undefined && atStore === "queued")`,
  },
  {
    name: "close does not release",
    file: "src/holder/leases.ts",
    find: "await Promise.all(leases.map((lease) => lease.release({ drainMs })));",
    replace:
      "await Promise.all(leases.slice(leases.length).map((lease) => lease.release({ drainMs })));",
  },
  {
    name: "a leader is not told of its loss",
    file: "src/election/term.ts",
    find: "this.#stopping.abort(signal.reason);",
    replace: "",
  },
  {
    name: "a late release frees a successor",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || held.token !== request.token) {",
    replace: "if (!entry || held === undefined) {",
  },
  {
    name: "a release of an older token counts",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || held.token !== request.token) {",
    replace: "if (!entry || held?.session.id !== request.sessionId) {",
  },
  {
    name: "granted while held",
    file: memory,
    find: "if (held !== undefined || !this.#mayTake(entry, request.attempt)) {",
    replace: "if (!this.#mayTake(entry, request.attempt)) {",
  },
  {
    name: "the store lets go early",
    file: memory,
    find: "session.expiresAt = this.#clock.now() + session.ttlMs;",
    replace: "session.expiresAt = this.#clock.now() + session.ttlMs * 0.9;",
  },
  {
    name: "a token twice",
    file: memory,
    find: "    const token = this.#backend.nextToken(entry.token, this.#clock.wallNow());",
    replace: `    const isSame = entry.lastAttempt?.startsWith(session.id) === true;
    const token = (isSame ? entry.token : undefined) ?? this.#backend.nextToken(entry.token, this.#clock.wallNow());`,
  },
  {
    name: "a repeated request is granted again",
    file: memory,
    find: `    if (entry.lastAttempt === request.attempt) {
      return held?.session === session ? { kind: "granted", token: held.token } : { kind: "ended" };
    }
    if (session.granted.has(request.attempt)) return { kind: "ended" };`,
    replace: `    if (entry.lastAttempt === request.attempt && held?.session === session)
      return { kind: "granted", token: entry.token };`,
    test: modelsTest,
  },
  {
    name: "renewal revives an expired session",
    file: memory,
    find: `    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for`,
    replace: `    const session = this.#backend.sessions.get(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for`,
    test: modelsTest,
  },
  {
    name: "etcd: a release of an older token counts",
    file: "src/stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: "when: [isOurs],",
    store: "etcd",
  },
  {
    name: "etcd: a release frees a successor",
    file: "src/stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: 'when: [{ key: holder, target: "create", is: ">", than: 0n }],',
    store: "etcd",
  },
  {
    name: "etcd: granted while held",
    file: "src/stores/etcd/grants.ts",
    find: "const when = [isThere, isAbsent(holder), isUnmarked,",
    replace: "const when = [isThere, isUnmarked,",
    store: "etcd",
  },
  {
    name: "etcd: a withdrawal takes what is not its own",
    file: "src/stores/etcd/endings.ts",
    find: "if (record.sessionId !== sessionId || record.attempt !== attempt) return;",
    replace: "if (record.sessionId !== sessionId) return;",
    store: "etcd",
  },
  {
    name: "etcd: a second more than was granted",
    file: "src/stores/etcd/renewal.ts",
    find: "ttlMs: alive.ttl * 1_000, gone",
    replace: "ttlMs: (alive.ttl + 1) * 1_000, gone",
    store: "etcd",
  },
  {
    name: "etcd: who waits does not hear that nobody holds",
    file: "src/stores/etcd/waiting.ts",
    find: "sight.isHeld = !isDelete;",
    replace: "sight.isHeld = true;",
    store: "etcd",
  },
  {
    name: "etcd: an old reason to overtake counts",
    file: "src/stores/etcd/grants.ts",
    find: 'return [{ key: overtakes.key, target: "mod", is: "=", than: overtakes.modRevision }];',
    replace: "return [];",
    store: "etcd",
    test: "test/stores/etcd/trips.test.ts",
  },
  {
    name: "the margin does not grow with a longer ttl",
    file: "src/core/deadline.ts",
    find: "return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);",
    replace: "return marginMs + 0 * clockErrorMs * grantedTtlMs * ttlMs;",
    store: "etcd",
  },
  {
    name: "a lease behind its end is handed out when guards are advanced",
    file: "src/holder/advance.ts",
    find: "if (clock.now() >= lease.safeUntil) lease.check();",
    replace: "",
    test: "src/holder/advance.test.ts",
  },
];
