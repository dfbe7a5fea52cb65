// Checks the guards (S2). A guard rejects stale writes and admits all others. acquire({ guards })
// returns a lease only after its guard has advanced to the token.

import type { MakeChecker } from "./checker.ts";

export const guardedWrites: MakeChecker = () => ({
  on(event, _facts, report) {
    if (event.kind !== "wrote" || !event.guarded) return;
    const { resource, token, outcome, stale } = event;
    if (outcome === "admitted" && stale)
      report("S2", `${resource}: the guard admitted ${token} after a higher token`);
    if (outcome === "refused" && !stale)
      report("S2", `${resource}: the guard rejected ${token}, which is not stale`);
  },
});

/** Once a holder has the lease, the guard must reject its predecessor. */
export const guardsAdvanceFirst: MakeChecker = () => {
  const advanced = new Set<string>();
  return {
    on(event, _facts, report) {
      if (event.kind === "advanced") advanced.add(`${event.resource} ${event.token}`);
      if (event.kind !== "held" || !event.withGuards) return;
      const { who, resource, token } = event;
      if (!advanced.has(`${resource} ${token}`))
        report("S2", `${who} was given ${resource} ${token} before its guard was advanced`);
    },
  };
};
