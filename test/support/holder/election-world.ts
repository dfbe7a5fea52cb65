// Creates candidates for the tests of elections. Each acts as a separate process on one memory
// backend and records its events.
import type { Election, ElectionOptions, Lead } from "../../../src/election/election.ts";
import type { ElectionEvent } from "../../../src/election/events.ts";
import type { Member, World } from "./holder-world.ts";

/** Leads until it is asked to stop. */
export const leadUntilStopped: Lead = (_, stopping) =>
  new Promise<void>((resolve) => {
    if (stopping.aborted) resolve();
    stopping.addEventListener("abort", () => resolve(), { once: true });
  });

export interface Candidate extends Member {
  readonly election: Election;
  readonly events: ElectionEvent[];
  readonly eventTypes: () => string[];
}

export async function candidate(
  world: World,
  holderId: string,
  options: Partial<ElectionOptions> = {},
): Promise<Candidate> {
  const member = await world.join(holderId);
  const events: ElectionEvent[] = [];
  const onEvent = (event: ElectionEvent): void => void events.push(event);
  const election = member.tenure.election("leader", {
    lead: leadUntilStopped,
    onEvent,
    ...options,
  });
  return { ...member, election, events, eventTypes: () => events.map(({ type }) => type) };
}
