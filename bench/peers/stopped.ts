// Which writes of a stopped holder are accepted, by library. The first process takes the lock,
// writes, asks its library whether it still holds the lock, and is stopped (SIGSTOP) right after
// the yes. The second one takes the lock when the library lets it, and writes. Then the first
// continues, and its late write goes out. The resource is in this process, and counts.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StaleTokenError } from "../../src/core/errors.ts";
import { type MemoryGuard, memoryGuard } from "../../src/guards/memory/index.ts";
import { waitUntilStopped } from "../../test/servers/process-tree.mjs";
import type { Child, Told } from "../../test/support/process/child.ts";
import { TIMING, TTL_MS } from "../overlap/contestants.ts";
import { failedRow, type Row, type Section } from "../results.ts";
import type { Context } from "../topic.ts";
import { endChild, newResource, startChild } from "../workers.ts";
import { type Contender, contendersOn } from "./peers.ts";

/** A library that has not granted the second process by then does not wait for time to pass. */
const WINDOW_MS = 4 * TTL_MS;
const PAIRS_AT_A_TIME = 12;
/** One after the other, with one pair of processes. */
const PAUSES_PER_PAIR = 10;
/** Where a lock ends with its process, every pause takes the whole window and shows the same. */
const PAUSES_WITHOUT_TTL = 3;
const SPOILT_MAX = 5;

export interface Pause {
  readonly lateWrites: number;
  /** Whether the second process got the lock while the first was stopped. */
  readonly wasFollowed: boolean;
  /** What the first process's library said after the pause, before the write. */
  readonly saysHeld: boolean;
}

/** The library said no before the pause, so nothing was stopped. */
class SpoiltPauseError extends Error {}

export async function* stopped(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const pauses = quick ? 2 : 100;
  const folder = join(servers.folder, "stopped");
  mkdirSync(folder, { recursive: true });
  const contenders: Contender[] = [];
  for (const engine of engines) {
    const url = engine === "sqlite" ? folder : await servers.url(engine);
    for (const each of contendersOn(engine, url, withPeers))
      contenders.push(each.kind === "peer" ? each : { ...each, name: `tenure on ${engine}` });
  }
  const trials = contenders.map((contender) => new Trial(contender));
  const jobs = trials.flatMap((trial) => trial.plan(pauses));
  const lane = async (): Promise<void> => {
    for (let job = jobs.shift(); job !== undefined; job = jobs.shift()) await job();
  };
  await Promise.all(Array.from({ length: PAIRS_AT_A_TIME }, lane));
  yield {
    title: "Safety: writes of a stopped holder",
    method: `${pauses} pauses each, ttl ${TTL_MS / 1_000} s. Tenure's writes carry a token, and a guard compares it. The other libraries document no token to send, so there the resource accepts every write. After the pause the library is asked once more, right before the write.`,
    rows: trials.flatMap((trial) => trial.toRows()),
  };
}

class Trial {
  readonly #contender: Contender;
  readonly #pauses: Pause[] = [];
  #failure: unknown;

  constructor(contender: Contender) {
    this.#contender = contender;
  }

  /** Each job uses one pair of processes. */
  plan(pauses: number): (() => Promise<void>)[] {
    const isEndless = this.#contender.peer?.endsWithProcess === true;
    // If the second process is not granted, it keeps waiting, and the pair cannot be used again.
    const most = isEndless ? 1 : PAUSES_PER_PAIR;
    const count = isEndless ? Math.min(pauses, PAUSES_WITHOUT_TTL) : pauses;
    return Array.from({ length: Math.ceil(count / most) }, (_, job) => {
      const share = Math.min(most, count - job * most);
      return async () => {
        if (this.#failure !== undefined) return;
        await this.#runPair(share).catch((error: unknown) => {
          this.#failure = error;
        });
      };
    });
  }

  async #runPair(count: number): Promise<void> {
    const { library, url, kind } = this.#contender;
    const settings = { library, url, ttlMs: TTL_MS, timing: TIMING };
    let spoilt = 0;
    let done = 0;
    while (done < count) {
      const [first, second] = [
        startChild("stopped.mjs", settings),
        startChild("stopped.mjs", settings),
      ];
      try {
        await Promise.all([first.heard("ready"), second.heard("ready")]);
        let isUsable = true;
        while (isUsable && done < count) {
          const pause = await runPause(first, second, kind === "tenure");
          this.#pauses.push(pause);
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

  toRows(): Row[] {
    const { name, kind } = this.#contender;
    if (this.#failure !== undefined) return [failedRow(name, this.#failure, kind === "tenure")];
    return toRows(name, kind === "tenure", this.#pauses);
  }
}

async function runPause(first: Child, second: Child, isGuarded: boolean): Promise<Pause> {
  const resource = newResource();
  const written = new WrittenResource(resource, isGuarded);
  const isIts = (told: Told): boolean => told.resource === resource;
  first.say({ do: "stop", resource });
  written.write("first", readToken(await first.heard("wrote", isIts)));
  const { isHeld } = await first.heard("asked", isIts);
  if (isHeld !== true) throw new SpoiltPauseError("its library said no before the pause");
  await waitUntilStopped(first.pid);
  second.say({ do: "follow", resource });
  const followed = await within(WINDOW_MS, second.heard("wrote", isIts));
  if (followed !== undefined) written.write("second", readToken(followed));
  first.signal("SIGCONT");
  const late = await first.heard("wrote late", isIts);
  written.write("first", readToken(late));
  return {
    lateWrites: written.lateWrites,
    wasFollowed: followed !== undefined,
    saysHeld: late.isHeld === true,
  };
}

function readToken({ token }: Told): string | undefined {
  return token === undefined ? undefined : String(token);
}

/** Undefined if the event does not come in time. */
async function within(ms: number, event: Promise<Told>): Promise<Told | undefined> {
  const limit = new AbortController();
  event.catch(() => undefined);
  const late = sleep(ms, undefined, { signal: limit.signal });
  late.catch(() => undefined);
  return Promise.race([event, late]).finally(() => limit.abort());
}

/**
 * The resource of one pause. With a guard it accepts the writes that the guard admits, otherwise
 * every write.
 */
export class WrittenResource {
  readonly #name: string;
  readonly #guard: MemoryGuard | undefined;
  readonly #accepted: ("first" | "second")[] = [];

  constructor(name: string, isGuarded: boolean) {
    this.#name = name;
    this.#guard = isGuarded ? memoryGuard() : undefined;
  }

  /** `token`: in decimal digits. */
  write(by: "first" | "second", token?: string): void {
    if (this.#guard === undefined) {
      this.#accepted.push(by);
      return;
    }
    // A write without a token would be refused for the wrong reason.
    if (token === undefined) throw new Error(`The ${by} writer sent no token.`);
    try {
      const source = { resource: this.#name, token: BigInt(token) };
      this.#guard.write(source, () => this.#accepted.push(by));
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
    }
  }

  /** Writes of the first process that were accepted after one of the second. */
  get lateWrites(): number {
    const since = this.#accepted.indexOf("second");
    return since < 0 ? 0 : this.#accepted.slice(since).filter((by) => by === "first").length;
  }
}

export function toRows(name: string, isTenure: boolean, pauses: readonly Pause[]): Row[] {
  const count = pauses.length;
  const late = pauses.filter(({ lateWrites }) => lateWrites > 0).length;
  const held = pauses.filter(({ saysHeld }) => saysHeld).length;
  const alone = pauses.filter(({ wasFollowed }) => !wasFollowed).length;
  const never = `no other process got the lock while it was stopped (${WINDOW_MS / 1_000} s)`;
  const where = alone === count ? `: ${never}` : `; in ${alone} of them ${never}`;
  const row = {
    label: `${name}: late writes accepted`,
    measured: `${late} of ${count}${alone === 0 ? "" : where}`,
  };
  return [
    // If no other process was ever granted, the trial proves nothing for Tenure.
    isTenure ? { ...row, target: "<= 0", ok: late === 0 && alone < count } : row,
    { label: `${name}: says "still held" after the pause`, measured: `${held} of ${count}` },
  ];
}
