// What reached the resources: behind a guard nothing stale is admitted, and nothing else is refused; a lease that was to advance
// the guard is handed out when the guard is advanced, and not before (S2).

import type { MakeChecker } from "./checker.ts";

export const guardedWrites: MakeChecker = () => ({
  on(event, _facts, report) {
    if (event.kind !== "wrote" || !event.guarded) return;
    const { resource, token, outcome, stale } = event;
    if (outcome === "admitted" && stale)
      report("S2", `${resource}: the guard admitted ${token} behind a higher token`);
    if (outcome === "refused" && !stale)
      report("S2", `${resource}: the guard refused ${token} for no reason`);
  },
});

/** acquire({ guards }): from the moment on that somebody has the lease, the one before is refused. */
export const guardsAreAdvanced: MakeChecker = () => {
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
