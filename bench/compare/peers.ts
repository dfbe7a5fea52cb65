// `npm run bench:peers`: Tenure beside what people use today, on the same servers in the same run. With --quick it takes some
// three minutes and shows only the order of things.

import { tryLoadPeer } from "../peers/install.ts";
import { inTempFolder, type Section } from "../support.ts";
import { compare } from "./comparison.ts";
import { openFields } from "./fields.ts";
import { importTimes, sizes } from "./footprint.ts";
import type { Effort } from "./locks.ts";
import { overlapSection, zombieSection } from "./safety.ts";

const ROUNDS = 3;
const THOROUGH: Effort = {
  sliceMs: 1_000,
  handovers: 100,
  processes: [2, 8, 32],
  contendMs: 5_000,
};
const QUICK: Effort = { sliceMs: 100, handovers: 6, processes: [2], contendMs: 300 };

export async function comparePeers({ quick }: { readonly quick: boolean }): Promise<Section[]> {
  const begunAt = performance.now();
  const say = (line: string): void =>
    console.log(`  ${((performance.now() - begunAt) / 1_000).toFixed(0).padStart(4)} s  ${line}`);
  // Whichever is loaded first installs them all, where they are missing.
  const withPeers = (await tryLoadPeer("ioredis")) !== undefined;
  const sections = await inTempFolder(async (folder) => {
    const open = await openFields(quick ? QUICK : THOROUGH, { folder, withPeers });
    try {
      const comparisons = [...open.comparisons, importTimes(withPeers)];
      return await compare(comparisons, { rounds: ROUNDS, quick, say });
    } finally {
      await open.close();
    }
  });
  say("package sizes");
  sections.push(sizes(withPeers));
  say("safety: cut-off holders");
  sections.push(await overlapSection(quick ? 1 : 20, withPeers));
  say("safety: late writes");
  sections.push(await zombieSection(quick ? 1 : 100));
  return sections;
}
