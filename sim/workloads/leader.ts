// An election with a warm-up: every candidate prepares before it campaigns, leads until it is told to stop, and sometimes
// resigns as planned.

import type { ElectionEvent } from "../../src/election/events.ts";
import { drawHabits, isExpectedError, type Workload, recordLease } from "./workload.ts";

export const LEADER = "leader";
/** Whoever leads looks at its signal at least so often, by its own clock. */
export const LONGEST_STEP_MS = 900;

export const leader: Workload = async (day) => {
  const { tenure, chance, program, stopping } = day;
  const habits = { ...drawHabits(chance), inDoubt: false };
  const election = tenure.election(LEADER, {
    value: program.name,
    prepare: () => program.sleep(chance.between(0, 1_000)),
    onEvent: (event) => day.note({ kind: "election", event: event.type, detail: detailOf(event) }),
    lead: async (lease, stop) => {
      const { resource, token } = lease;
      recordLease(day, lease);
      day.note({ kind: "workBegan", resource, token, actsInDoubt: false });
      try {
        while (!stop.aborted) {
          day.act(lease, habits);
          await program.sleep(chance.between(50, LONGEST_STEP_MS));
        }
      } finally {
        day.note({ kind: "workEnded", resource, token });
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

function detailOf(event: ElectionEvent): string {
  return "term" in event ? `term ${event.term}` : "";
}
