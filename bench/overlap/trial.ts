// One trial: a holder behind a proxy, a contender on a good link, and a silent cut of the first at a random moment. It goes
// on until the first knows and the second holds, and half a second more, but never longer than four ttls behind the cut.
import { setTimeout as sleep } from "node:timers/promises";
import { startProxy } from "../../test/servers/proxy.ts";
import type { RunningServer } from "../../test/servers/server.ts";
import { hostMs } from "../../test/support/faults/history.ts";
import type { Child, Told } from "../../test/support/process/child.ts";
import { endChild, startChild } from "./children.ts";
import { type Contestant, TIMING, TTL_MS } from "./contestants.ts";

export interface TrialResult {
  /** The first holder's last act, less the second's grant: below zero, so much time lay between them. */
  readonly overlapMs: number;
  /** From the cut until the first holder's library said no; undefined: not within the window. */
  readonly toldMs: number | undefined;
}

/** A trial that measured nothing, because the cut did not hit a holder or nobody came after it. */
export class SpoiltTrialError extends Error {}

/** Three ttls would end just when redlock-universal tells its holder: now in time, now not. */
const WINDOW_MS = 4 * TTL_MS;
const AFTERWARDS_MS = 500;
/** Everybody's first renewal may lie before the cut, and so may none. */
const CUT_AFTER_MS = { least: 100, spread: TTL_MS };
const WORKER = new URL("./worker.mjs", import.meta.url);
let resources = 0;

export async function runTrial(
  contestant: Contestant,
  server: RunningServer,
): Promise<TrialResult> {
  resources += 1;
  const resource = `overlap-${process.pid}-${resources}`;
  await using proxy = await startProxy(server);
  const settings = { library: contestant.library, resource, ttlMs: TTL_MS, timing: TIMING };
  const first = startChild(WORKER, { ...settings, url: proxy.url });
  const second = startChild(WORKER, { ...settings, url: server.url });
  try {
    await Promise.all([first.heard("ready"), second.heard("ready")]);
    first.say({ do: "compete" });
    await first.heard("granted");
    second.say({ do: "compete" });
    await sleep(CUT_AFTER_MS.least + Math.random() * CUT_AFTER_MS.spread);
    if (first.told.some(({ event }) => event === "knows"))
      throw new SpoiltTrialError("the first holder lost it before the cut");
    const cutAt = hostMs();
    proxy.cut();
    await within(cutAt + WINDOW_MS, [first.heard("knows"), second.heard("granted")]);
    // A library that says yes again after its no shows in this time.
    await sleep(AFTERWARDS_MS);
    const { requests, replies } = proxy.counts();
    if (requests.droppedBytes + replies.droppedBytes === 0)
      throw new SpoiltTrialError("the cut swallowed nothing");
    return measure({ cutAt, first: await accountOf(first), second });
  } finally {
    await Promise.all([endChild(first), endChild(second)]);
  }
}

interface Account {
  readonly lastActAt: number;
  readonly knowsAt: number | undefined;
}

/** What the first did, whether its process still runs or not. */
async function accountOf(first: Child): Promise<Account> {
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
  if (second.hasExited) throw new Error(`The second contestant failed: ${second.errors}`);
  if (granted === undefined) throw new SpoiltTrialError("the second was never granted");
  return {
    overlapMs: first.lastActAt - granted.at,
    toldMs: first.knowsAt === undefined ? undefined : first.knowsAt - cutAt,
  };
}

/** Waits for all of them, but not longer; what has not come by then will not be missed. */
async function within(limitAt: number, events: readonly Promise<Told>[]): Promise<void> {
  const limit = new AbortController();
  const late = sleep(limitAt - hostMs(), undefined, { signal: limit.signal });
  await Promise.race([Promise.allSettled(events), late]).finally(() => limit.abort());
}
