// All planted bugs. Each one changes one place in the shipped code, as a programmer in a hurry
// might. If its name says so, it changes the model's copy of code that runs inside a database.
// `find` must occur in the file exactly once. To add a bug, add an entry; `npm run mutants -- NAME`
// runs it alone.

import type { Mutant } from "./mutant.ts";
import { ACKNOWLEDGEMENT_MUTANTS } from "./planted/acknowledgements.ts";
import { ERA_MUTANTS } from "./planted/eras.ts";
import { ETCD_MUTANTS } from "./planted/etcd.ts";
import { HANDOFF_MUTANTS } from "./planted/handoff.ts";
import { HOLDER_MUTANTS } from "./planted/holder.ts";
import { LIVENESS_MUTANTS } from "./planted/liveness.ts";
import { ONCE_MUTANTS } from "./planted/once.ts";
import { POSTGRES_MUTANTS } from "./planted/postgres.ts";
import { REDIS_MUTANTS } from "./planted/redis.ts";
import { SQLITE_MUTANTS } from "./planted/sqlite.ts";
import { ZOOKEEPER_MUTANTS } from "./planted/zookeeper.ts";

export type { Mutant } from "./mutant.ts";

const machine = "src/core/session-machine.ts";
/** The conformance suite, run on the models. */
const modelsTest = "sim/test/models.test.ts";
const machineTest = "src/core/session-machine.test.ts";
const lease = "src/holder/held-lease.ts";
const memory = "src/stores/memory/backend.ts";

export const MUTANTS: readonly Mutant[] = [
  ...ACKNOWLEDGEMENT_MUTANTS,
  ...ERA_MUTANTS,
  ...ETCD_MUTANTS,
  ...HANDOFF_MUTANTS,
  ...HOLDER_MUTANTS,
  ...LIVENESS_MUTANTS,
  ...ONCE_MUTANTS,
  ...SQLITE_MUTANTS,
  ...POSTGRES_MUTANTS,
  ...REDIS_MUTANTS,
  ...ZOOKEEPER_MUTANTS,
  {
    name: "the deadline counts from the receipt of the answer",
    file: "src/holder/session.ts",
    find: `type: "renewed", now: clock.now(), sentAt, grantedTtlMs`,
    replace: `type: "renewed", now: clock.now(), sentAt: clock.now(), grantedTtlMs`,
  },
  {
    name: "the deadline has no margin",
    file: "src/core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs + 0 * marginMs",
  },
  {
    name: "the margin is a tenth too small",
    file: "src/core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs - 0.9 * marginMs",
  },
  {
    name: "the guard admits the token below the highest",
    file: "src/core/token.ts",
    find: "offered >= highest;",
    replace: "offered >= highest - 1n;",
  },
  {
    name: "the guard refuses an equal token",
    file: "src/core/token.ts",
    find: "offered >= highest;",
    replace: "offered > highest;",
  },
  {
    name: "the guard does not remember tokens",
    file: "src/guards/memory/index.ts",
    find: "highest.set(source.resource, admit(source, highest.get(source.resource)));",
    replace: "admit(source, highest.get(source.resource));",
  },
  {
    name: "check ignores doubt",
    file: lease,
    find: "this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.confirmedUntil",
    replace: "this.#session.safeUntil",
  },
  {
    name: "check does not read the clock",
    file: lease,
    find: "if (this.#acting && now < until) return this.token;",
    replace: "if (this.#acting && until > 0) return this.token;",
  },
  {
    name: "a late answer revives an expired session",
    file: machine,
    find: `      if (event.now >= state.safeUntil) return outOfTime();
      // A late reply to an older request`,
    replace: "      // A late reply to an older request",
    test: machineTest,
  },
  {
    name: "a late answer to an older renewal moves the deadline",
    file: machine,
    find: "if (event.sentAt <= proofAfter(state)) return { state, commands: [] };",
    replace: "",
    test: machineTest,
  },
  {
    name: "a session that the store does not know continues",
    file: machine,
    find: `return end("expired", "the store says that the session is gone");`,
    replace: "return { state, commands: [] };",
  },
  {
    name: "a clock jump is ignored",
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
    name: "an answer to a request sent before a step of the wall clock ends doubt",
    file: machine,
    find: `kind: "doubt", sentAfter: now, failures }`,
    replace: `kind: "doubt", sentAfter: state.sentAt, failures }`,
    test: machineTest,
  },
  {
    name: "a clock jump while a session opens is ignored",
    file: "src/holder/sessions.ts",
    find: `if (jumps.has("certain")) session.close(false);
      else`,
    replace: "",
  },
  {
    name: "renewals are sent too rarely",
    file: machine,
    find: 'event.sentAt + timing.renewEveryMs - event.now) },\n      { do: "checkAt"',
    replace: 'event.sentAt + 3 * timing.renewEveryMs - event.now) },\n      { do: "checkAt"',
  },
  {
    name: "closing ends a session that is in use",
    file: machine,
    find: `return end("released", "the session was closed", !event.inUse);`,
    replace: `return end("released", "the session was closed", true);`,
    test: machineTest,
  },
  {
    name: "release does not wait for work in flight",
    file: "src/core/lease-machine.ts",
    find: "return state.work === 0\n        ? RELEASE",
    replace: "return state.work >= 0\n        ? RELEASE",
  },
  {
    name: "release waits for only one of two pieces of work",
    file: "src/core/lease-machine.ts",
    find: "return state.work <= 1\n        ? RELEASE",
    replace: "return state.work <= 2\n        ? RELEASE",
  },
  {
    name: "a draining lease accepts new work",
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
    name: "a grant of an ended session is accepted",
    file: "src/holder/acquire.ts",
    find: "if (!session.checkDeadline(clock.now())) return undefined;",
    replace: "",
  },
  {
    name: "attempt ids are reused",
    file: "src/holder/session.ts",
    find: "this.#attempts += 1;",
    replace: "this.#attempts = 1;",
  },
  {
    name: "an attempt with an unknown outcome is not withdrawn",
    file: "src/holder/acquire.ts",
    find: `if (lease === undefined && atStore !== "nothing")`,
    replace: `if (lease === undefined && atStore === "queued")`,
  },
  {
    name: "close does not release leases",
    file: "src/holder/leases.ts",
    find: "await Promise.all(leases.map((lease) => lease.release({ drainMs })));",
    replace:
      "await Promise.all(leases.slice(leases.length).map((lease) => lease.release({ drainMs })));",
  },
  {
    name: "a leader is not notified of its loss",
    file: "src/election/term.ts",
    find: "this.#stopping.abort(signal.reason);",
    replace: "",
  },
  {
    name: "a late release frees a successor's lease",
    file: memory,
    find: "if (!entry || held?.session.id !== sessionId || held.token !== token) return false;",
    replace: "if (!entry || held === undefined) return false;",
  },
  {
    name: "a release with an older token succeeds",
    file: memory,
    find: "if (!entry || held?.session.id !== sessionId || held.token !== token) return false;",
    replace: "if (!entry || held?.session.id !== sessionId) return false;",
  },
  {
    name: "a held lease is granted again",
    file: memory,
    find: "    if (this.findHeld(entry, at) !== undefined) return;\n    const mayBeGranted",
    replace:
      "    if (this.findHeld(entry, at) === undefined && requester === undefined) return;\n    const mayBeGranted",
  },
  {
    name: "sessions expire early",
    file: memory,
    find: "  return renewedAt + ttlMs;",
    replace: "  return renewedAt + 0.9 * ttlMs;",
  },
  {
    name: "a token is issued twice",
    file: memory,
    find: "    const token = this.#nextToken(entry.token, at.wallMs);",
    replace: `    const isSame = entry.lastAttempt?.startsWith(session.id) === true;
    const token = (isSame ? entry.token : undefined) ?? this.#nextToken(entry.token, at.wallMs);`,
  },
  {
    name: "a repeated request is granted again",
    file: memory,
    find: `      return isHeld ? { kind: "granted", token: held.token } : { kind: "ended" };`,
    replace: `      if (isHeld) return { kind: "granted", token: held.token };`,
    test: modelsTest,
  },
  {
    name: "a renewal revives an expired session",
    file: memory,
    find: `    const session = this.#findSession(request.sessionId, at);
    if (session === undefined) return { kind: "gone" };
    session.renewedAt = at.now;`,
    replace: `    const session = this.sessions.get(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    session.renewedAt = at.now;`,
    test: modelsTest,
  },
  {
    name: "the margin does not grow with a longer ttl",
    file: "src/core/deadline.ts",
    find: "return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);",
    replace: "return marginMs + 0 * clockErrorMs * grantedTtlMs * ttlMs;",
    store: "etcd",
  },
  {
    name: "a lease that expired while guards were advanced is returned to the caller",
    file: "src/holder/advance.ts",
    find: "if (clock.now() >= lease.safeUntil) lease.check();",
    replace: "",
    test: "src/holder/advance.test.ts",
  },
];
