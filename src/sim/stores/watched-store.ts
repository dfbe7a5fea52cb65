// Between the holder and any store: notes what the holder asks and what it learns, as it sees it. The checkers compare that
// with what it does afterwards.

import type { Store } from "../../stores/store.ts";
import type { Program } from "../world/program.ts";
import type { Trace } from "../world/trace.ts";

export function watchedStore(store: Store, program: Program, trace: Trace): Store {
  const who = program.name;
  const asked = (what: string): void => trace.note(who, { kind: "asked", what });
  return {
    guarantees: store.guarantees,
    openSession: async (request) => {
      asked("openSession");
      return store.openSession(request);
    },
    grant: (request) => {
      asked("grant");
      return store.grant(request);
    },
    renew: async (request) => {
      asked("renew");
      const session = request.sessionId;
      const sentAt = program.clocks.now();
      const sentAtTrue = program.clocks.trueInstant(sentAt);
      const note = (outcome: "renewed" | "gone" | "failed"): void =>
        trace.note(who, { kind: "renewed", session, sentAt, sentAtTrue, outcome });
      try {
        const answer = await store.renew(request);
        note(answer.kind);
        return answer;
      } catch (error) {
        note("failed");
        throw error;
      }
    },
    release: (request) => {
      const { resource, token } = request;
      trace.note(who, { kind: "gaveUp", resource, token });
      return store.release(request);
    },
    withdraw: (request) => {
      asked("withdraw");
      return store.withdraw(request);
    },
    endSession: (request) => {
      trace.note(who, { kind: "endedSession", session: request.sessionId });
      return store.endSession(request);
    },
    revoke: (request) => store.revoke(request),
    untilFree: (request) => {
      asked("untilFree");
      return store.untilFree(request);
    },
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    watch: (request) => store.watch(request),
    close: () => store.close(),
  };
}
