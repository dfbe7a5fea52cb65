// What a holder writes that was stopped between its last look at the lock and its write, by library. A pause: the first takes
// the lock, writes, asks its library, hears yes, and is stopped (SIGSTOP); the second takes the lock as soon as the library
// lets it, and writes; the first is continued, and its write goes out. The resource is in this process, and counts.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { hasStopped } from "../../test/servers/process-tree.mjs";
import type { Child, Told } from "../../test/support/process/child.ts";
import { endChild, startChild } from "../overlap/children.ts";
import { contestantsOf, engineIds, FLOCK, TIMING, TTL_MS } from "../overlap/contestants.ts";
import type { Row, Section } from "../support.ts";
import { inLanes, type ServerOf } from "./ground.ts";
import { WrittenResource } from "./late-writes.ts";

/** Four ttls. Whoever has not let another in by then waits for something else than time. */
const WINDOW_MS = 4 * TTL_MS;
const PAIRS_AT_A_TIME = 12;
/** Of one pair of processes, one behind the other. */
const PAUSES_PER_PAIR = 10;
/** Where a lock ends with its process every pause is the whole window, and shows the same. */
const PAUSES_WITHOUT_TTL = 3;
const SPOILT_MAX = 5;
const WORKER = new URL("../workers/stopped.mjs", import.meta.url);

interface Named {
  readonly name: string;
  readonly isOurs: boolean;
}

interface Stoppable extends Named {
  readonly library: string;
  readonly url: string;
  /** Not by time: nobody gets it from a process that lives. */
  readonly endsWithProcess: boolean;
}

export interface Pause {
  readonly lateWrites: number;
  /** Whether the second got the lock while the first was stopped. */
  readonly wasFollowed: boolean;
  /** What the first's library said when it was continued, before the write. */
  readonly saysHeld: boolean;
}

/** Asked before the pause, the library said no: nothing was stopped. */
class SpoiltPauseError extends Error {}

export async function stoppedSection(
  serverOf: ServerOf,
  { pauses, folder, withPeers }: { pauses: number; folder: string; withPeers: boolean },
): Promise<Section> {
  const contestants = stoppables(serverOf, folder, withPeers);
  const found = new Map(contestants.map((each) => [each, [] as Pause[]]));
  const failures = new Map<Stoppable, string>();
  await inLanes(contestants.flatMap(jobsOf(pauses)), PAIRS_AT_A_TIME, async ({ who, count }) => {
    if (failures.has(who)) return;
    try {
      await runPair(who, count, (pause) => found.get(who)?.push(pause));
    } catch (error) {
      failures.set(who, (error as Error).message.split("\n")[0] ?? "");
    }
  });
  return {
    title: "Safety: writes of a holder that was stopped",
    method: `${pauses} pauses each, ttl ${TTL_MS / 1_000} s: stopped right behind its library's yes and before its write, until another one has the lock and has written; then it is continued and the write goes out. With Tenure the token goes along and a guard at the resource compares it; the pages of the others have no token to send, so there the resource takes what arrives. After the pause the library is asked once more before the write, in the same turn of the event loop.`,
    rows: contestants.flatMap((each) => {
      const failure = failures.get(each);
      if (failure === undefined) return rowsOf(each, found.get(each) ?? []);
      const row = { what: each.name, measured: `failed: ${failure}` };
      return each.isOurs ? { ...row, ok: false } : row;
    }),
  };
}

function stoppables(serverOf: ServerOf, folder: string, withPeers: boolean): Stoppable[] {
  const files = join(folder, "stopped");
  mkdirSync(files, { recursive: true });
  const peer = { isOurs: false, endsWithProcess: false };
  const onServers = contestantsOf(engineIds, withPeers).map(
    ({ name, engine, library, isOurs }): Stoppable => ({
      ...{ name: isOurs ? `tenure on ${name}` : name, library, url: serverOf(engine).url },
      ...{ isOurs, endsWithProcess: false },
    }),
  );
  const sqlite: Stoppable = {
    ...{ name: "tenure on sqlite", library: "tenure", url: `sqlite:${join(files, "tenure.db")}` },
    ...{ isOurs: true, endsWithProcess: false },
  };
  if (!withPeers) return [sqlite, ...onServers];
  return [
    sqlite,
    { ...peer, name: "proper-lockfile", library: "proper-lockfile", url: files },
    { ...peer, name: FLOCK, library: "flock", url: files, endsWithProcess: true },
    ...onServers,
    {
      ...{ name: "advisory", library: "advisory", url: serverOf("postgres").url },
      ...{ isOurs: false, endsWithProcess: true },
    },
  ];
}

interface Job {
  readonly who: Stoppable;
  readonly count: number;
}

function jobsOf(pauses: number): (who: Stoppable) => Job[] {
  return (who) => {
    const jobs: Job[] = [];
    // One that nobody follows leaves the second in line, and the pair is of no more use.
    const most = who.endsWithProcess ? 1 : PAUSES_PER_PAIR;
    let left = who.endsWithProcess ? Math.min(pauses, PAUSES_WITHOUT_TTL) : pauses;
    for (; left > 0; left -= most) jobs.push({ who, count: Math.min(most, left) });
    return jobs;
  };
}

async function runPair(who: Stoppable, count: number, tell: (pause: Pause) => void): Promise<void> {
  const { library, url } = who;
  const start = (): Child => startChild(WORKER, { library, url, ttlMs: TTL_MS, timing: TIMING });
  let spoilt = 0;
  let done = 0;
  while (done < count) {
    const [first, second] = [start(), start()];
    try {
      await Promise.all([first.heard("ready"), second.heard("ready")]);
      let isUsable = true;
      while (isUsable && done < count) {
        const pause = await pauseOnce(first, second, who);
        tell(pause);
        done += 1;
        isUsable = pause.wasFollowed;
      }
    } catch (error) {
      spoilt += 1;
      if (!(error instanceof SpoiltPauseError) || spoilt > SPOILT_MAX) throw error;
    } finally {
      await Promise.all([endChild(first), endChild(second)]);
    }
  }
}

let resources = 0;

async function pauseOnce(first: Child, second: Child, { isOurs }: Stoppable): Promise<Pause> {
  resources += 1;
  const resource = `stopped-${process.pid}-${resources}`;
  const written = new WrittenResource(resource, { isGuarded: isOurs });
  const isIts = (told: Told): boolean => told.resource === resource;
  first.say({ do: "be stopped", resource });
  written.write("first", tokenOf(await first.heard("wrote", isIts)));
  const { isHeld } = await first.heard("asked", isIts);
  if (isHeld !== true) throw new SpoiltPauseError("its library said no before the pause");
  await hasStopped(first.pid);
  second.say({ do: "follow", resource });
  const followed = await within(WINDOW_MS, second.heard("wrote", isIts));
  if (followed !== undefined) written.write("second", tokenOf(followed));
  first.signal("SIGCONT");
  const late = await first.heard("wrote late", isIts);
  written.write("first", tokenOf(late));
  return {
    lateWrites: written.lateWrites,
    wasFollowed: followed !== undefined,
    saysHeld: late.isHeld === true,
  };
}

function tokenOf({ token }: Told): string | undefined {
  return token === undefined ? undefined : String(token);
}

/** What it resolves to, or undefined when it takes longer. */
async function within(ms: number, event: Promise<Told>): Promise<Told | undefined> {
  const limit = new AbortController();
  event.catch(() => undefined);
  const late = sleep(ms, undefined, { signal: limit.signal });
  late.catch(() => undefined);
  return Promise.race([event, late]).finally(() => limit.abort());
}

export function rowsOf({ name, isOurs }: Named, pauses: readonly Pause[]): Row[] {
  const count = pauses.length;
  const what = `${name}: late writes accepted of ${count} pauses`;
  const late = pauses.filter(({ lateWrites }) => lateWrites > 0).length;
  const says = pauses.filter(({ saysHeld }) => saysHeld).length;
  const alone = pauses.filter(({ wasFollowed }) => !wasFollowed).length;
  const nobody = `nobody else got the lock while it was stopped (${WINDOW_MS / 1_000} s)`;
  const where = alone === count ? `: ${nobody}` : `; in ${alone} of them ${nobody}`;
  const row = { what, measured: `${late}${alone === 0 ? "" : where}` };
  // With nobody to come after it, ours would have shown nothing.
  const ours = { ...row, target: "<= 0", ok: late === 0 && alone < count };
  return [
    isOurs ? ours : row,
    { what: `${name}: says "still held" after the pause`, measured: `${says} of ${count}` },
  ];
}
