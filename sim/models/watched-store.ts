// Wraps a store and notes in the trace what the holder requests and what it learns, as the holder
// sees it. The checkers compare that with what the holder does afterwards.

import type { AttemptRequest, Store } from "../../src/stores/contract.ts";
import type { Program } from "../world/program.ts";
import type { Trace } from "../world/trace.ts";

export function watchedStore(store: Store, program: Program, trace: Trace): Store {
  const who = program.name;
  const { clocks } = program;
  /** Notes the request, and returns the instant at which it is sent. */
  const asked = (
    what: string,
    of: Partial<AttemptRequest>,
  ): { sentAt: number; sentAtTrue: number } => {
    const { sessionId: session = "", resource, attempt } = of;
    const now = clocks.now();
    const about = resource !== undefined && attempt !== undefined ? { resource, attempt } : {};
    const { wallSteppedAt } = clocks;
    trace.note(who, { kind: "asked", what, session, now, wallSteppedAt, ...about });
    return { sentAt: now, sentAtTrue: clocks.trueInstant(now) };
  };
  return {
    guarantees: store.guarantees,
    openSession: async (request) => {
      const session = request.sessionId;
      const sent = asked("openSession", request);
      const opened = await store.openSession(request);
      const { expiryLagMs } = store.guarantees;
      trace.note(who, { kind: "opened", expiryLagMs, session, ...sent, ttlMs: opened.ttlMs });
      return opened;
    },
    grant: async (request) => {
      const { sessionId: session, resource, attempt } = request;
      const { sentAtTrue } = asked("grant", request);
      const answer = await store.grant(request);
      if (answer.kind === "gone") trace.note(who, { kind: "toldGone", session });
      if (answer.kind === "queued")
        trace.note(who, { kind: "queued", resource, attempt, sentAtTrue });
      return answer;
    },
    renew: async (request) => {
      const sent = { session: request.sessionId, ...asked("renew", request) };
      const note = (outcome: "renewed" | "gone" | "failed", ttlMs = 0): void => {
        const received = { now: clocks.now(), outcome, ttlMs };
        const { wallSteppedAt } = clocks;
        trace.note(who, { kind: "renewed", ...sent, ...received, wallSteppedAt });
      };
      try {
        const answer = await store.renew(request);
        note(answer.kind, answer.kind === "renewed" ? answer.ttlMs : 0);
        return answer;
      } catch (error) {
        note("failed");
        throw error;
      }
    },
    release: (request) => {
      const { resource, token } = request;
      asked("release", request);
      trace.note(who, { kind: "gaveUp", resource, token });
      return store.release(request);
    },
    endSession: (request) => {
      asked("endSession", request);
      trace.note(who, { kind: "endedSession", session: request.sessionId });
      return store.endSession(request);
    },
    ...noteOnly(store, asked),
    close: () => store.close(),
  };
}

type Asked = (what: string, of: Partial<AttemptRequest>) => unknown;

/** Requests of which only the sending is noted. */
function noteOnly(
  store: Store,
  asked: Asked,
): Pick<Store, "withdraw" | "revoke" | "read" | "list" | "watch"> {
  return {
    withdraw: (request) => {
      asked("withdraw", request);
      return store.withdraw(request);
    },
    revoke: (request) => {
      asked("revoke", {});
      return store.revoke(request);
    },
    read: (request) => {
      asked("read", {});
      return store.read(request);
    },
    list: (request) => {
      asked("list", {});
      return store.list(request);
    },
    watch: (request) => {
      asked("watch", {});
      return store.watch(request);
    },
  };
}
