// Goal: on every store, a preferred candidate leads even from the end of the queue, and the rank
// decides which candidate takes over. Method: candidates on separate connections to real servers;
// the test checks which of them lead, and in which order.
import { describe, expect, test } from "vitest";
import type { ElectionOptions } from "../../../src/election/election.ts";
import type { ElectionEvent } from "../../../src/election/events.ts";
import { leadUntilStopped } from "../../support/holder/election-world.ts";
import { everyStore, freshName, machinesOn } from "../../support/stores/every-store.ts";

describe.each(everyStore)("%s", (engine) => {
  const machine = machinesOn(engine);

  async function candidate(name: string, holderId: string, options: Partial<ElectionOptions> = {}) {
    const tenure = await machine(holderId);
    const events: ElectionEvent[] = [];
    const election = tenure.election(name, {
      lead: leadUntilStopped,
      onEvent: (event) => void events.push(event),
      ...options,
    });
    election.start();
    const has = (type: ElectionEvent["type"]): boolean =>
      events.some((event) => event.type === type);
    await expect.poll(() => has("campaigning"), { timeout: 20_000 }).toBe(true);
    return { election, has };
  }

  const leads = ({ election }: { election: { state: string } }) =>
    expect.poll(() => election.state, { timeout: 20_000, interval: 10 }).toBe("leading");

  test("the preferred candidate leads, and the candidate before it in the queue does not", async () => {
    const name = freshName("leader");
    const first = await candidate(name, "first");
    await leads(first);
    const second = await candidate(name, "second");
    const third = await candidate(name, "third");
    const resigned = await first.election.resign({ preferred: "third", waitMs: 15_000 });
    expect(resigned).toMatchObject({ successor: { holderId: "third" } });
    await leads(third);
    expect(second.has("elected")).toBe(false);
  });

  test("a rank 0 candidate succeeds a resigning leader before an older rank 4 candidate, which leads once it is alone", async () => {
    const name = freshName("leader");
    const first = await candidate(name, "first");
    await leads(first);
    const backup = await candidate(name, "backup", { rank: 4 });
    const main = await candidate(name, "main");
    await first.election.stop();
    await leads(main);
    expect(backup.has("elected")).toBe(false);
    await main.election.stop();
    await leads(backup);
  });
});
