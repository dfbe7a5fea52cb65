// Bugs in the holder, the election and the memory store.

import type { Mutant } from "../mutant.ts";

const machine = "src/core/session-machine.ts";
const machineTest = "src/core/session-machine.test.ts";
const lease = "src/holder/held-lease.ts";
const memory = "src/stores/memory/backend.ts";
const session = "src/holder/session.ts";
const acquire = "src/holder/acquire.ts";

export const HOLDER_MUTANTS: readonly Mutant[] = [
  {
    name: "the deadline uses the wall clock",
    file: session,
    find: "const sentAt = clock.now();",
    replace: "const sentAt = clock.wallNow();",
  },
  {
    name: "check reads the deadline before the clock",
    file: lease,
    find: `    const now = this.#clock.now();
    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.confirmedUntil;`,
    replace: `    const until = this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.confirmedUntil;
    const now = this.#clock.now();`,
    equivalent:
      "the clock reading that finds a jump ends the session and notifies its leases before it returns, and check() tests for that too",
  },
  {
    name: "an expired deadline does not end the session",
    file: session,
    find: "if (now >= this.safeUntil) this.#feed",
    replace: "if (now >= this.safeUntil + 1e9) this.#feed",
  },
  {
    name: "a revocation is not reported to the lease",
    file: session,
    find: "    for (const ref of answer.gone) this.lost(ref);\n",
    replace: "",
  },
  {
    name: "an answer that arrives after its time limit is ignored",
    file: session,
    find: ".then((answer) => this.#processAnswer(answer, report)),\n      );",
    replace: ",\n      );\n      this.#processAnswer(outcome, report);",
    test: "src/holder/revocation.test.ts",
  },
  {
    name: "a revocation of an older token ends the newer lease",
    file: session,
    find: `if (member?.token === ref.token) member.lose`,
    replace: `if (member !== undefined) member.lose`,
  },
  {
    name: "renewals do not repeat withdrawals",
    file: session,
    find: "const withdrawn = this.#withdrawals.list();",
    replace: "const withdrawn = this.#withdrawals.list().slice(0, 0);",
  },
  {
    name: "the end of doubt is not reported",
    file: machine,
    find: `return confirm(event, timing, state.kind === "doubt" ? [{ do: "leaveDoubt" }] : []);`,
    replace: "return confirm(event, timing, []);",
    test: machineTest,
  },
  {
    name: "a caller that waits for the end of doubt misses a loss found while it starts waiting",
    file: session,
    find: `    const outcome = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));`,
    replace: `    clock.now();
    if (this.end !== undefined) return new Promise(() => undefined);
    const outcome = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));`,
    test: "src/holder/loss.test.ts",
  },
  {
    name: "a grant that was already revoked is returned to the caller",
    file: acquire,
    find: "    if (session.wasRevoked({ resource, token })) return undefined;\n",
    replace: "",
    test: "src/holder/revocation.test.ts",
  },
  {
    name: "an unknown outcome is treated as not applied",
    file: acquire,
    find: `if (isUnavailable(error) && error.applied === "unknown") {`,
    replace: `if (isUnavailable(error) && error.applied === "no") {`,
  },
  {
    name: "a grant that arrives after its caller gave up is kept",
    file: acquire,
    find: `          atStore = "unknown";
          if (!tokens`,
    replace: `          atStore = "nothing";
          if (!tokens`,
  },
  {
    name: "an unavailable store is retried without a pause",
    file: acquire,
    find: "await pause(this.#parts.clock, delayMs, this.#ending());",
    replace: "await pause(this.#parts.clock, 0 * delayMs, this.#ending());",
  },
  {
    name: "an unconfirmed release is not repeated",
    file: "src/holder/send-release.ts",
    find: "  session.withdrawOnRenewal(resource, attempt);\n",
    replace: "  void attempt;\n",
  },
  {
    name: "a drain has no deadline",
    file: lease,
    find: `if (this.#state.kind !== "draining" || drainMs === Number.POSITIVE_INFINITY) return;`,
    replace: "if (drainMs >= 0) return;",
  },
  {
    name: "close does not wait for acquisitions in progress",
    file: "src/holder/leases.ts",
    find: "await this.#acquiring.idle();",
    replace: "",
    test: "src/holder/close.test.ts",
  },
  {
    name: "handover does not wait for work in flight",
    file: lease,
    find: "const release = await this.release({ drainMs: options.drainMs });",
    replace: `this.#sendRelease();
    const release = await this.release({ drainMs: options.drainMs });`,
  },
  {
    name: "an aborted watch ends only after its pending answer",
    file: "src/async/signals.ts",
    find: "await orAborted(iterator.next(), signal)",
    replace: "await iterator.next()",
    store: "postgres",
    test: "src/holder/leases.test.ts",
  },
  {
    name: "a candidate prepares after it has won",
    file: "src/election/candidate.ts",
    find: `      await this.#prepare(candidacy.signal);
      const lease = await this.#win();`,
    replace: `      const lease = await this.#win();
      await this.#prepare(candidacy.signal);`,
    test: "src/election/election.test.ts",
  },
  {
    name: "a leader that resigns is not asked to stop",
    file: "src/election/term.ts",
    find: "    this.#stopping.abort();\n",
    replace: "",
    test: "src/election/election.test.ts",
  },
  {
    name: "a withdrawal frees another holder's lease",
    file: memory,
    find: "if (held?.session === session && held.attempt === attempt) this.#free(entry, held, at);",
    replace: "if (held !== undefined) this.#free(entry, held, at);",
  },
  {
    name: "the store does not report revocations",
    file: memory,
    find: "    held.session.revoked.set(toKey(ref), ref);\n    report(held.session, (events) => events.lost(ref));\n",
    replace: "",
  },
];
