// `npm run bench:peers`: Tenure beside what people use today, on the same servers in the same run. With --quick it shows
// only the order of things. A part that fails is a row that says so; the others go on.

import { guards } from "../guards.ts";
import { tryLoadPeer } from "../peers/install.ts";
import { inTempFolder, type Section } from "../support.ts";
import { checkComparison } from "./check.ts";
import { type Comparison, compare } from "./comparison.ts";
import { type Counted, startCounted } from "./counted.ts";
import { type CrowdEffort, crowdComparisons } from "./crowd.ts";
import { entrantsOf } from "./entrants.ts";
import { openFields } from "./fields.ts";
import { importTimes, sizes } from "./footprint.ts";
import { type HeldEffort, heldSections } from "./held.ts";
import type { Effort } from "./locks.ts";
import { overlapSection, zombieSection } from "./safety.ts";
import { tokenSection } from "./tokens.ts";

interface Efforts {
  readonly rounds: number;
  readonly locks: Effort;
  readonly crowd: CrowdEffort;
  readonly held: HeldEffort;
  readonly guardRounds: number;
  readonly overlaps: number;
  readonly zombies: number;
  /** On a quiet machine of two cores. */
  readonly minutes: number;
}

const THOROUGH: Efforts = {
  rounds: 3,
  locks: { sliceMs: 1_000, handovers: 30, processes: [2, 8, 32], contendMs: 2_000, restarts: 10 },
  crowd: { processes: 10, waiters: 100, idleMs: 2_000 },
  held: { counts: [1_000, 10_000], keepMs: 30_000 },
  guardRounds: 7,
  overlaps: 20,
  zombies: 100,
  minutes: 29,
};
const QUICK: Efforts = {
  rounds: 3,
  locks: { sliceMs: 100, handovers: 6, processes: [2], contendMs: 300, restarts: 1 },
  crowd: { processes: 2, waiters: 10, idleMs: 500 },
  held: { counts: [1_000], keepMs: 3_000 },
  guardRounds: 1,
  overlaps: 1,
  zombies: 5,
  minutes: 3.5,
};

type Say = (line: string) => void;

export async function comparePeers({ quick }: { readonly quick: boolean }): Promise<Section[]> {
  const efforts = quick ? QUICK : THOROUGH;
  const begunAt = performance.now();
  const say: Say = (line) =>
    console.log(`  ${((performance.now() - begunAt) / 1_000).toFixed(0).padStart(4)} s  ${line}`);
  say(`about ${efforts.minutes} minutes on a quiet machine`);
  // Whichever is loaded first installs them all, where they are missing.
  const withPeers = (await tryLoadPeer("ioredis")) !== undefined;
  return inTempFolder(async (folder) => {
    const sections: Section[] = [];
    const part = async (title: string, work: () => Promise<Section | Section[]>): Promise<void> => {
      say(title);
      try {
        sections.push(...[await work()].flat());
      } catch (error) {
        const measured = `failed: ${(error as Error).message.split("\n")[0]}`;
        console.error(error);
        sections.push({ title, method: "", rows: [{ what: "all of it", measured, ok: false }] });
      }
    };
    const where = { folder, withPeers };
    await part("locks, beside each other", () => compareLocks(efforts, { ...where, quick, say }));
    await part("many locks held", async () => {
      await using counted = await startCounted(folder);
      return await heldSections(counted, efforts.held, withPeers);
    });
    await part("guarded writes", async () => withoutPeers(await guards(efforts.guardRounds)));
    await part("package sizes", async () => sizes(withPeers));
    await part("safety: the token over a restart", () => tokenSection(folder));
    await part("safety: cut-off holders", () => overlapSection(efforts.overlaps, withPeers));
    await part("safety: late writes", () => zombieSection(efforts.zombies));
    return sections;
  });
}

interface Where {
  readonly folder: string;
  readonly withPeers: boolean;
  readonly quick: boolean;
  readonly say: Say;
}

async function compareLocks(
  efforts: Efforts,
  { folder, withPeers, quick, say }: Where,
): Promise<Section[]> {
  const open = await openFields(efforts.locks, { folder, withPeers });
  try {
    await using counted = await startCounted(folder);
    const comparisons: Comparison[] = [
      ...open.comparisons,
      ...ofCounted(counted, efforts, withPeers),
      importTimes(withPeers),
    ];
    const sections = await compare(comparisons, { rounds: efforts.rounds, quick, say });
    if (open.missing.length === 0) return sections;
    const method = "What could not be opened is in none of the tables.";
    return [...sections, { title: "Left out", method, rows: open.missing }];
  } finally {
    await open.close();
  }
}

function ofCounted(counted: Counted, efforts: Efforts, withPeers: boolean): Comparison[] {
  return [
    ...crowdComparisons(counted, efforts.crowd, withPeers),
    checkComparison(entrantsOf(counted.servers, withPeers).Redis),
  ];
}

function withoutPeers(section: Section): Section {
  const method = `${section.method} No peer has anything to put here: none gives out a token that a resource could compare.`;
  return { ...section, method };
}
