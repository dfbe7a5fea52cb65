// What reached the resources: behind a guard nothing stale is admitted, and nothing else is refused (S2).

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
