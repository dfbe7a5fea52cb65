// `npm run bench:peers`: Tenure beside what people use today, on the same servers in the same run. With --quick it shows
// only the order of things. A part that fails is a row that says so; the others go on. Some parts can be asked for by name.

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
import { withServers } from "./ground.ts";
import { type HeldEffort, heldSections } from "./held.ts";
import type { Effort } from "./locks.ts";
import { overlapSection, zombieSection } from "./safety.ts";
import { stoppedSection } from "./stopped.ts";
import { tokenSection } from "./tokens.ts";

interface Efforts {
  readonly rounds: number;
  readonly locks: Effort;
  readonly crowd: CrowdEffort;
  readonly held: HeldEffort;
  /** Of each library, a round. */
  readonly imports: number;
  readonly guardRounds: number;
  readonly overlaps: number;
  readonly pauses: number;
  /** Of the server, over ten grants. */
  readonly restarts: number;
  readonly zombies: number;
  /** On a quiet machine of two cores. */
  readonly minutes: number;
}

const THOROUGH: Efforts = {
  rounds: 3,
  locks: {
    ...{ slices: 8, sliceMs: 125, warmUpMs: 1_000, handovers: 30, restarts: 10, failovers: 9 },
    ...{ processes: [2, 8, 32], contendMs: 2_000 },
  },
  crowd: { processes: 10, waiters: 100, settleMs: 1_500, idleMs: 2_000 },
  held: { counts: [1_000, 10_000], keepMs: 30_000, rounds: 3 },
  imports: 5,
  guardRounds: 7,
  overlaps: 20,
  pauses: 100,
  restarts: 9,
  zombies: 100,
  minutes: 45,
};
const QUICK: Efforts = {
  rounds: 3,
  locks: {
    ...{ slices: 2, sliceMs: 50, warmUpMs: 200, handovers: 3, restarts: 1, failovers: 3 },
    ...{ processes: [2], contendMs: 300 },
  },
  crowd: { processes: 2, waiters: 6, settleMs: 500, idleMs: 300 },
  held: { counts: [1_000], keepMs: 3_000, rounds: 1 },
  imports: 2,
  guardRounds: 1,
  overlaps: 1,
  pauses: 2,
  restarts: 1,
  zombies: 3,
  minutes: 2.5,
};

type Say = (line: string) => void;

/** What every part needs. */
interface Run {
  readonly efforts: Efforts;
  readonly quick: boolean;
  readonly folder: string;
  /** False where they could not be installed. */
  readonly withPeers: boolean;
  readonly say: Say;
}

type Part = (run: Run) => Promise<Section[]>;

const held: Part = async ({ folder, efforts, withPeers, say }) => {
  say("many locks held");
  await using counted = await startCounted(folder);
  return await heldSections(counted, efforts.held, withPeers);
};

const waiters: Part = async ({ folder, efforts: { rounds, crowd }, withPeers, quick, say }) => {
  await using counted = await startCounted(folder);
  return await compare(crowdComparisons(counted, crowd, withPeers), { rounds, quick, say });
};

const safety: Part = async ({ folder, efforts, withPeers, say }) => {
  const { restarts, overlaps, pauses } = efforts;
  say("safety: the token over a restart");
  const token = await tokenSection({ folder, withPeers, restarts });
  const others = await withServers(async (serverOf) => {
    say("safety: cut-off holders");
    const cut = await overlapSection(serverOf, { trials: overlaps, withPeers });
    say("safety: stopped holders");
    return [cut, await stoppedSection(serverOf, { pauses, folder, withPeers })];
  });
  return [token, ...others];
};

const late: Part = async ({ efforts, say }) => {
  say("safety: late writes");
  return [await zombieSection(efforts.zombies)];
};

const guarded: Part = async ({ efforts, say }) => {
  say("guarded writes");
  return [withoutPeers(await guards(efforts.guardRounds))];
};

const all: Part = async (run) => {
  const { efforts, quick, withPeers, say } = run;
  say(`about ${efforts.minutes} minutes on a quiet machine`);
  const locks = await settled("locks, beside each other", compareLocks(run));
  // Both mostly wait. In a quick run they do so at the same time; else one might show in the figures of the other.
  const heldFirst = settled("many locks held", held(run));
  if (!quick) await heldFirst;
  const safetyFound = settled("safety", safety(run));
  const [many, safe] = [await heldFirst, await safetyFound];
  const writes = await settled("guarded writes", guarded(run));
  const size = await settled(
    "package sizes",
    Promise.resolve().then(() => sizes(withPeers)),
  );
  return [...locks, ...many, ...writes, ...size, ...safe, ...(await settled("late", late(run)))];
};

/** What came of it, or a table that says that it failed. */
async function settled(title: string, work: Promise<Section | Section[]>): Promise<Section[]> {
  try {
    return [await work].flat();
  } catch (error) {
    console.error(error);
    const measured = `failed: ${(error as Error).message.split("\n")[0]}`;
    return [{ title, method: "", rows: [{ what: "all of it", measured, ok: false }] }];
  }
}

/** The whole comparison, and the parts of it that can be asked for by name. */
export function peerBenchmarks(quick: boolean): Record<string, () => Promise<Section[]>> {
  const efforts = quick ? QUICK : THOROUGH;
  const begin = (part: Part) => async (): Promise<Section[]> => {
    const begunAt = performance.now();
    const say: Say = (line) =>
      console.log(`  ${((performance.now() - begunAt) / 1_000).toFixed(0).padStart(4)} s  ${line}`);
    // Whichever is loaded first installs them all, where they are missing.
    const withPeers = (await tryLoadPeer("ioredis")) !== undefined;
    return inTempFolder((folder) => part({ efforts, quick, folder, withPeers, say }));
  };
  const size: Part = async ({ withPeers }) => [sizes(withPeers)];
  return {
    peers: begin(all),
    safety: begin(safety),
    late: begin(late),
    held: begin(held),
    waiters: begin(waiters),
    pairs: begin((run) => compareLocks(run, /acquire \+ release/)),
    handover: begin((run) => compareLocks(run, /handover between/)),
    start: begin((run) => compareLocks(run, /first lock|^Import$/)),
    check: begin((run) => compareLocks(run, /^Still held/)),
    contention: begin((run) => compareLocks(run, /processes on one lock/)),
    failover: begin((run) => compareLocks(run, /failover|planned restarts/)),
    guarded: begin(guarded),
    package: begin(size),
  };
}

/** All of them, or those whose titles have the words in them. */
async function compareLocks(run: Run, words = /./): Promise<Section[]> {
  const { efforts, folder, withPeers, quick, say } = run;
  say("locks, beside each other");
  const open = await openFields(efforts.locks, { folder, withPeers });
  try {
    await using counted = await startCounted(folder);
    const comparisons: Comparison[] = [
      ...open.comparisons,
      ...ofCounted(counted, efforts, withPeers),
      importTimes(withPeers, efforts.imports),
    ].filter(({ title }) => words.test(title));
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
  const method = `${section.method} No peer takes part: none comes with a guard. What each gives out with a grant is in the table of tokens.`;
  return { ...section, method };
}
