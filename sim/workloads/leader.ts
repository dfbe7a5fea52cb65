// Workload: an election. Each candidate warms up before it campaigns, leads until it is asked to
// stop, and resigns from time to time.

import type { ElectionEvent } from "../../src/election/events.ts";
import { drawHabits, isExpectedError, recordLease, type Workload } from "./workload.ts";

export const LEADER = "leader";
/** The longest time between two checks of the leader's stop signal, by its own clock. */
export const LONGEST_STEP_MS = 900;

export const leader: Workload = async (context) => {
  const { tenure, chance, program, stopping } = context;
  const habits = { ...drawHabits(chance), inDoubt: false };
  const election = tenure.election(LEADER, {
    value: program.name,
    prepare: () => program.sleep(chance.between(0, 1_000)),
    onEvent: (event) =>
      context.note({ kind: "election", event: event.type, detail: formatDetail(event) }),
    lead: async (lease, stop) => {
      const { resource, token } = lease;
      recordLease(context, lease);
      context.note({ kind: "workBegan", resource, token, actsInDoubt: false });
      try {
        while (!stop.aborted) {
          context.act(lease, habits);
          await program.sleep(chance.between(50, LONGEST_STEP_MS));
        }
      } finally {
        context.note({ kind: "workEnded", resource, token });
      }
    },
  });
  election.start();
  while (!stopping.aborted) {
    await program.sleep(chance.between(3_000, 20_000));
    const resigned = election.resign({ waitMs: 2_000, drainMs: 2_000 });
    await resigned.catch((error: unknown) => {
      if (!isExpectedError(error)) throw error;
    });
  }
};

function formatDetail(event: ElectionEvent): string {
  return "term" in event ? `term ${event.term}` : "";
}
