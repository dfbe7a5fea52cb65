// One overlap trial: a holder behind a proxy, a contender with a direct connection, and a silent
// cut of the holder's link at a random moment. The trial ends half a second after the first has
// noticed and the second holds the lock, or four ttls after the cut.
import { setTimeout as sleep } from "node:timers/promises";
import { startProxy } from "../../test/servers/proxy.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { hostMs } from "../../test/support/faults/history.ts";
import type { Child, Told } from "../../test/support/process/child.ts";
import { endChild, newResource, startChild } from "../workers.ts";
import { type Contestant, TIMING, TTL_MS } from "./contestants.ts";

export interface TrialResult {
  /**
   * The first holder's last act minus the second's grant; negative if there was time between them.
   */
  readonly overlapMs: number;
  /** From the cut until the first holder's library said no; undefined if not within the window. */
  readonly toldMs: number | undefined;
}

/** The trial measured nothing, because the cut hit no holder or no other process was granted. */
export class SpoiltTrialError extends Error {}

/** redlock-universal notifies its holder after about three ttls, so three would not be enough. */
const WINDOW_MS = 4 * TTL_MS;
const AFTERWARDS_MS = 500;
/** The cut may come before or after the first renewal of any library. */
const CUT_AFTER_MS = { least: 100, spread: TTL_MS };

export async function runTrial(
  { library }: Contestant,
  server: RunningServer,
): Promise<TrialResult> {
  await using proxy = await startProxy(server);
  const settings = { library, resource: newResource(), ttlMs: TTL_MS, timing: TIMING };
  const first = startChild("cut-off.mjs", { ...settings, url: proxy.url });
  const second = startChild("cut-off.mjs", { ...settings, url: server.url });
  try {
    await Promise.all([first.heard("ready"), second.heard("ready")]);
    first.say({ do: "compete" });
    await first.heard("granted");
    second.say({ do: "compete" });
    await sleep(CUT_AFTER_MS.least + Math.random() * CUT_AFTER_MS.spread);
    if (first.told.some(({ event }) => event === "knows"))
      throw new SpoiltTrialError("the first holder lost the lock before the cut");
    const cutAt = hostMs();
    proxy.cut();
    await waitForAll([first.heard("knows"), second.heard("granted")], cutAt + WINDOW_MS);
    // A library that says yes again after its no does so in this time.
    await sleep(AFTERWARDS_MS);
    const { requests, replies } = proxy.counts();
    if (requests.droppedBytes + replies.droppedBytes === 0)
      throw new SpoiltTrialError("the cut dropped no bytes");
    return measure({ cutAt, first: await readAccount(first), second });
  } finally {
    await Promise.all([endChild(first), endChild(second)]);
  }
}

interface Account {
  readonly lastActAt: number;
  readonly knowsAt: number | undefined;
}

/** What the first holder did, whether or not its process still runs. */
async function readAccount(first: Child): Promise<Account> {
  const knows = first.told.find(({ event }) => event === "knows");
  if (!first.hasExited) first.say({ do: "report" });
  const account: Told = first.hasExited && knows ? knows : await first.heard("report");
  if (typeof account.lastActAt !== "number")
    throw new SpoiltTrialError("the first holder never acted");
  return { lastActAt: account.lastActAt, knowsAt: knows?.at };
}

function measure(trial: { cutAt: number; first: Account; second: Child }): TrialResult {
  const { cutAt, first, second } = trial;
  const granted = second.told.find(({ event }) => event === "granted");
  if (second.hasExited) throw new Error(`The second process failed: ${second.errors}`);
  if (granted === undefined) throw new SpoiltTrialError("the second process was never granted");
  return {
    overlapMs: first.lastActAt - granted.at,
    toldMs: first.knowsAt === undefined ? undefined : first.knowsAt - cutAt,
  };
}

/** Resolves when all events have come, or at the limit. */
async function waitForAll(events: readonly Promise<Told>[], limitAt: number): Promise<void> {
  const limit = new AbortController();
  const late = sleep(limitAt - hostMs(), undefined, { signal: limit.signal });
  await Promise.race([Promise.allSettled(events), late]).finally(() => limit.abort());
}
