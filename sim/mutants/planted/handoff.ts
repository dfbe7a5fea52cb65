// Bugs in handoff: the wrong waiter is granted a resource, or none is, or it never learns of it.

import type { Mutant } from "../mutant.ts";

const memory = "src/stores/memory/backend.ts";
const store = "src/stores/memory/store.ts";
const session = "src/holder/session.ts";
const awaited = "src/holder/awaited-grants.ts";
const acquire = "src/holder/acquire.ts";
/** The conformance suite, run on the models. */
const modelsTest = "sim/test/models.test.ts";
const holderTest = "src/holder/handoff.test.ts";

export const HANDOFF_MUTANTS: readonly Mutant[] = [
  {
    name: "a release does not hand off",
    file: memory,
    find: "    this.#handOff(entry, at, { preferred });\n",
    replace: "    void preferred;\n",
  },
  {
    name: "a resource is handed off to a quiet session",
    file: memory,
    find: "at.now < session.renewedAt + session.quietAfterMs;",
    replace: "at.now < expiresAt(session);",
    test: modelsTest,
  },
  {
    name: "a resource is handed off to a waiter that gave up",
    file: memory,
    find: "    leaveQueue(entry, session, attempt);\n    const held = this.findHeld(entry, at);",
    replace: "    const held = this.findHeld(entry, at);",
    test: modelsTest,
  },
  {
    name: "the waiters of an ended session stay in the queue",
    file: memory,
    find: "    for (const [attempt, entry] of session.waiting) leaveQueue(entry, session, attempt);\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "the newest waiter is served first",
    file: "src/stores/queue-policy.ts",
    find: "  return next < 0 ? queue.length : next;",
    replace: "  return next < 0 ? 0 : next;",
  },
  {
    name: "a handoff is not notified, and renewals do not report it",
    file: memory,
    find: "    session.unaccepted.set(entry.resource, grant);\n    if (attempt !== answered) report(session, (events) => events.granted(grant));\n",
    replace: "    void [grant, answered];\n",
  },
  {
    name: "a handoff is not notified",
    file: memory,
    find: "    if (attempt !== answered) report(session, (events) => events.granted(grant));\n",
    replace: "    void answered;\n",
    test: modelsTest,
  },
  {
    name: "renewals do not report handoffs",
    file: memory,
    find: "      granted: [...session.unaccepted.values()],\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "renewals report a handoff only once",
    file: memory,
    find: "if (session.unaccepted.get(resource)?.token === token) session.unaccepted.delete(resource);",
    replace: "if (token > 0n) session.unaccepted.delete(resource);",
    test: modelsTest,
  },
  {
    name: "a released lease is still reported as a handoff",
    file: memory,
    find: "    held.session.unaccepted.delete(entry.resource);\n",
    replace: "",
    test: modelsTest,
  },
  {
    name: "a renewal does not grant a free resource that its session waits for",
    file: memory,
    find: `    for (const entry of new Set(session.waiting.values()))
      this.#handOff(entry, at, { requester: session });
`,
    replace: "",
    test: modelsTest,
  },
  {
    name: "nobody checks whether the holder has expired",
    file: store,
    find: "    this.#backend.checkExpiry(entry, this.#now());\n",
    replace: "",
  },
  {
    name: "a grant that nobody awaits is kept",
    file: session,
    find: "    if (this.#awaited.deliver(grant) || member?.token === token) return;\n",
    replace: "    if (this.#awaited.deliver(grant) || grant.token > 0n) return;\n",
    test: holderTest,
  },
  {
    name: "a grant that is reported twice is given back",
    file: session,
    find: "    if (this.#awaited.deliver(grant) || member?.token === token) return;\n",
    replace: "    if (this.#awaited.deliver(grant)) return;\n",
    test: holderTest,
  },
  {
    name: "a newer grant does not end the earlier lease",
    file: session,
    find: "    if (member !== undefined && member.token < token) member.supersede();\n",
    replace: "",
    test: holderTest,
  },
  {
    name: "the holder accepts no handoffs",
    file: awaited,
    find: "    this.#unaccepted.set(resource, { resource, token });\n",
    replace: "",
    test: holderTest,
  },
  {
    name: "a waiter that the store has lost is not queued again",
    file: awaited,
    find: "if (waiting < still.length) for (const { wake } of still) wake?.();",
    replace: "void [waiting, still];",
    test: holderTest,
  },
  {
    name: "a late report of an earlier grant counts as a token regression",
    file: acquire,
    find: "if (!tokens.accept(resource, token, before)) return TRY_AGAIN;",
    replace: "tokens.accept(resource, token);",
    test: holderTest,
  },
  {
    name: "a lower token from a later request is accepted",
    file: "src/holder/token-memory.ts",
    find: "token <= before || token === highest",
    replace: "token === highest",
    test: "src/holder/token-memory.test.ts",
  },
  {
    name: "withLease() returns before its work in flight has settled",
    file: "src/holder/held-lease.ts",
    find: "      this.#onSent = resolve;\n",
    replace: "      resolve();\n",
    test: holderTest,
  },
];
