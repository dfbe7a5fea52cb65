// Planted bugs: each changes one place of the shipping code, as a hurried hand might. `find` must be in the file exactly
// once. To add one, add an entry; `npm run mutants -- NAME` runs it alone.

export interface Mutant {
  readonly name: string;
  /** Below src/. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The model that runs the changed code, where the one that was asked for does not. */
  readonly store?: string;
  /** The unit test that holds the line, where no seed can see it: it is run when no seed did. */
  readonly test?: string;
  /** Why no test can notice it, where that is so. */
  readonly equivalent?: string;
}

const machine = "core/session-machine.ts";
const machineTest = "src/core/session-machine.test.ts";
const lease = "holder/lease.ts";
const memory = "stores/memory.ts";
const session = "holder/session.ts";
const acquire = "holder/acquire.ts";
const sqliteStore = "stores/sqlite/store.ts";
const sqliteTables = "stores/sqlite/tables.ts";

export const MUTANTS: readonly Mutant[] = [
  {
    name: "deadline from receipt",
    file: "holder/session.ts",
    find: `type: "renewed", now: clock.now(), sentAt, grantedTtlMs`,
    replace: `type: "renewed", now: clock.now(), sentAt: clock.now(), grantedTtlMs`,
  },
  {
    name: "no margin",
    file: "core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs + 0 * marginMs",
  },
  {
    name: "margin a tenth too small",
    file: "core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs - 0.9 * marginMs",
  },
  {
    name: "guard off by one",
    file: "core/token.ts",
    find: "offered >= highest;",
    replace: "offered >= highest - 1n;",
  },
  {
    name: "equal token refused",
    file: "core/token.ts",
    find: "offered >= highest;",
    replace: "offered > highest;",
  },
  {
    name: "guard does not remember",
    file: "guards/memory.ts",
    find: "highest.set(source.resource, admit(source, highest.get(source.resource)));",
    replace: "admit(source, highest.get(source.resource));",
  },
  {
    name: "doubt ignored by check",
    file: lease,
    find: "this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.settledUntil",
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
    find: "if (event.sentAt <= state.sentAt) return { state, commands: [] };",
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
    name: "a jump while opening is ignored",
    file: "holder/sessions.ts",
    find: "if (jumped) session.close(false);",
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
  },
  {
    name: "release does not wait for work",
    file: "core/lease-machine.ts",
    find: "return state.work === 0\n        ? release()",
    replace: "return state.work >= 0\n        ? release()",
  },
  {
    name: "one of two works settles for both",
    file: "core/lease-machine.ts",
    find: "return state.work <= 1\n        ? release()",
    replace: "return state.work <= 2\n        ? release()",
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
    file: "holder/acquire.ts",
    find: "if (!session.look(clock.now())) return undefined;",
    replace: "",
  },
  {
    name: "attempts are not new",
    file: "holder/session.ts",
    find: "this.#attempts += 1;",
    replace: "this.#attempts = 1;",
  },
  {
    name: "an unknown attempt is not withdrawn",
    file: "holder/acquire.ts",
    find: `if (lease === undefined && atStore !== "nothing")`,
    replace: `if (lease === undefined && atStore === "queued")`,
  },
  {
    name: "close does not release",
    file: "holder/leases.ts",
    find: "await Promise.all(leases.map((lease) => lease.release({ drainMs })));",
    replace:
      "await Promise.all(leases.slice(leases.length).map((lease) => lease.release({ drainMs })));",
  },
  {
    name: "a leader is not told of its loss",
    file: "election/reign.ts",
    find: "this.#stopping.abort(signal.reason);",
    replace: "",
  },
  {
    name: "a late release frees a successor",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || entry.token !== request.token) {",
    replace: "if (!entry || held === undefined) {",
  },
  {
    name: "a release of an older token counts",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || entry.token !== request.token) {",
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
    find: "    entry.token += 1n;",
    replace: "    if (entry.lastAttempt?.startsWith(session.id) !== true) entry.token += 1n;",
  },
  {
    name: "a repeated request is granted again",
    file: memory,
    find: "if (entry.lastAttempt === request.attempt) {",
    replace: "if (entry.lastAttempt === request.attempt && held !== undefined) {",
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
  },
  {
    name: "etcd: a release of an older token counts",
    file: "stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: "when: [isOurs],",
    store: "etcd",
  },
  {
    name: "etcd: a release frees a successor",
    file: "stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: 'when: [{ key: holder, target: "create", is: ">", than: 0n }],',
    store: "etcd",
  },
  {
    name: "etcd: granted while held",
    file: "stores/etcd/grants.ts",
    find: "const when = [isThere, isAbsent(holder), isUnmarked,",
    replace: "const when = [isThere, isUnmarked,",
    store: "etcd",
  },
  {
    name: "etcd: a withdrawal takes what is not its own",
    file: "stores/etcd/endings.ts",
    find: "if (record.sessionId !== sessionId || record.attempt !== attempt) return;",
    replace: "if (record.sessionId !== sessionId) return;",
    store: "etcd",
  },
  {
    name: "etcd: a second more than was granted",
    file: "stores/etcd/renewal.ts",
    find: "ttlMs: alive.ttl * 1_000, gone",
    replace: "ttlMs: (alive.ttl + 1) * 1_000, gone",
    store: "etcd",
  },
  {
    name: "the margin does not grow with a longer ttl",
    file: "core/deadline.ts",
    find: "return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);",
    replace: "return marginMs + 0 * clockErrorMs * grantedTtlMs * ttlMs;",
    store: "etcd",
  },
  {
    name: "a lease behind its end is handed out when guards are raised",
    file: "holder/raise.ts",
    find: "if (clock.now() >= lease.safeUntil) lease.check();",
    replace: "",
  },
  {
    name: "a deadline by the wall clock",
    file: session,
    find: "const sentAt = clock.now();",
    replace: "const sentAt = clock.wallNow();",
  },
  {
    name: "check reads the deadline before the clock",
    file: lease,
    find: `    const now = this.#clock.now();
    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.settledUntil;`,
    replace: `    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.settledUntil;
    const now = this.#clock.now();`,
    equivalent:
      "the reading that finds a jump ends the session and tells its leases before it returns, and check() asks for that too",
  },
  {
    name: "nobody looks whether the time is over",
    file: session,
    find: "if (now >= this.safeUntil) this.#feed",
    replace: "if (now >= this.safeUntil + 1e9) this.#feed",
  },
  {
    name: "a revocation is not told",
    file: session,
    find: "for (const ref of outcome.gone) this.#loseOne(ref);",
    replace: "",
  },
  {
    name: "a revocation of an older term ends the newer",
    file: session,
    find: `if (member?.token === ref.token) member.lose`,
    replace: `if (member !== undefined) member.lose`,
  },
  {
    name: "renewals forget what was withdrawn",
    file: session,
    find: "const withdrawn = this.#stillWithdrawn();",
    replace: "const withdrawn = this.#stillWithdrawn().slice(0, 0);",
  },
  {
    name: "the end of doubt is not told",
    file: machine,
    find: `return confirm(event, timing, state.kind === "doubt" ? [{ do: "leaveDoubt" }] : []);`,
    replace: "return confirm(event, timing, []);",
    test: machineTest,
  },
  {
    name: "an unknown answer counts as no",
    file: acquire,
    find: `if (isUnavailable(error) && error.applied === "unknown") {`,
    replace: `if (isUnavailable(error) && error.applied === "no") {`,
  },
  {
    name: "a grant that nobody wants any more is kept",
    file: acquire,
    find: `          atStore = "unknown";
          this.#parts.tokens`,
    replace: `          atStore = "nothing";
          this.#parts.tokens`,
  },
  {
    name: "a store in trouble is asked without a pause",
    file: acquire,
    find: "await pause(this.#parts.clock, delayMs, this.#ending());",
    replace: "await pause(this.#parts.clock, 0 * delayMs, this.#ending());",
  },
  {
    name: "a release that was not confirmed is forgotten",
    file: "holder/give-back.ts",
    find: "  session.withdrawLater(resource, attempt);\n",
    replace: "  void attempt;\n",
  },
  {
    name: "a drain has no deadline",
    file: lease,
    find: `if (this.#state.kind !== "draining" || drainMs === Number.POSITIVE_INFINITY) return;`,
    replace: "if (drainMs >= 0) return;",
  },
  {
    name: "close does not wait for those who acquire",
    file: "holder/leases.ts",
    find: "await this.#acquiring.none();",
    replace: "",
    test: "src/holder/close.test.ts",
  },
  {
    name: "handover does not wait for the work",
    file: lease,
    find: "const result = await this.release(options);",
    replace: `this.#giveBack();
    const result = await this.release(options);`,
  },
  {
    name: "the warm-up counts as leading",
    file: "election/election.ts",
    find: `      await this.#becomeReady(candidacy.signal);
      const lease = await this.#win();`,
    replace: `      const lease = await this.#win();
      await this.#becomeReady(candidacy.signal);`,
    test: "src/election/election.test.ts",
  },
  {
    name: "a leader that resigns is not told to stop",
    file: "election/reign.ts",
    find: "    this.#stopping.abort();\n",
    replace: "",
    test: "src/election/election.test.ts",
  },
  {
    name: "a withdrawal frees whoever holds",
    file: memory,
    find: "if (held?.session.id === request.sessionId && entry.lastAttempt === request.attempt)",
    replace: "if (held !== undefined)",
  },
  {
    name: "the store tells nobody of a revocation",
    file: memory,
    find: "    held.session.revoked.push({ resource: request.resource, token: request.token });\n",
    replace: "",
  },
  {
    name: "once: claims are not looked at",
    file: "once/marks.ts",
    find: `    const taken = takenBy(marks, due);
    if (taken !== undefined) return taken;`,
    replace: "",
  },
  {
    name: "once: the claim ends with the run",
    file: "once/once.ts",
    find: "if (!begun) await claim.giveBack();",
    replace: "await claim.giveBack();",
  },
  {
    name: "once: a fire that was run may run again",
    file: "once/marks.ts",
    find: "fireOf(mark) >= due.atMs",
    replace: "fireOf(mark) > due.atMs",
  },
  {
    name: "once: the later of two claims is replaced",
    file: "once/marks.ts",
    find: "fireOf(a) - fireOf(b)",
    replace: "fireOf(b) - fireOf(a)",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: a fire is never late",
    file: "once/fire.ts",
    find: "wallNow > due.atMs + latestMs(due)",
    replace: "wallNow > due.atMs + 1e9 * latestMs(due)",
  },
  {
    name: "once: lateness is asked before the claim only",
    file: "once/once.ts",
    find: "if (!isLate(this.#due, this.#clock.wallNow())) return answer;",
    replace: "if (answer.kind) return answer;",
    test: "src/once/once.test.ts",
  },
  {
    name: "once: runs without a look at the lease behind the claim",
    file: "once/once.ts",
    find: `      const value = await lease.run((held) => {
        begun = true;
        return work(held);
      });`,
    replace: `      begun = true;
      const value = await work(lease);`,
  },
  {
    name: "once: a claim without a run is left behind",
    file: "once/marks.ts",
    find: "if (!marked) await left.end();",
    replace: "",
    test: "src/once/once.test.ts",
  },
  {
    name: "sqlite: granted while held",
    file: sqliteStore,
    find: "if (lookAgainInMs(row, head, attempt, at) > 0) {",
    replace: "if (lookAgainInMs(row, head, attempt, at) > 1e9) {",
    store: "sqlite",
  },
  {
    name: "sqlite: expiry by the wall clock",
    file: sqliteStore,
    find: "return { bootId: this.#host.bootId, nowMs: this.#host.now() };",
    replace:
      "return { bootId: this.#host.bootId, nowMs: Math.round(this.#parts.clock.wallNow()) };",
    store: "sqlite",
  },
  {
    name: "sqlite: a release of an older token counts",
    file: sqliteTables,
    find: "WHERE resource = ? AND session = ? AND token = ?\n",
    replace: "WHERE resource = ? AND session = ? AND token >= ?\n",
    store: "sqlite",
  },
  {
    name: "sqlite: renewal revives an expired session",
    file: sqliteTables,
    find: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, at.nowMs)",
    replace: "this.#sql.prolong.get(at.nowMs, stepMs, id, at.bootId, 0)",
    store: "sqlite",
  },
  {
    name: "sqlite: a withdrawal takes what is not its own",
    file: sqliteTables,
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
    file: sqliteTables,
    find: "token = token + 1, session = excluded.session",
    replace: "token = token + (session IS NOT excluded.session), session = excluded.session",
    store: "sqlite",
  },
  {
    name: "sqlite: the store lets go early",
    file: sqliteStore,
    find: "const expiresMs = at.nowMs + ttlMs + this.#host.stepMs;",
    replace: "const expiresMs = at.nowMs + Math.round(0.8 * ttlMs) + this.#host.stepMs;",
    store: "sqlite",
  },
];
