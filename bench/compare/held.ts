// Thousands of locks held by one process: what keeping them asks of the server, of the process and of its memory, and whether
// one is lost. The engines are measured beside each other, the libraries of one engine one behind the other, round by round.

import { setTimeout as sleep } from "node:timers/promises";
import { median, type Row, type Section, type Series, spread } from "../support.ts";
import { answer, endWorker, heard, startWorker } from "../workers.ts";
import type { Counted } from "./counted.ts";
import { type EngineName, type Entrant, entrantsOf } from "./entrants.ts";

/** What a process costs that holds nothing, and what its clock cannot tell apart. */
const NOISE_MS = 40;

export interface HeldEffort {
  readonly counts: readonly number[];
  readonly keepMs: number;
  readonly rounds: number;
}

interface Kept {
  readonly cpuMs: number;
  readonly rssMB: number;
  readonly lost: number;
}

interface Found extends Kept {
  readonly requests: number | undefined;
}

/** What was found of one library, or why not. */
export interface Tally {
  readonly entrant: Pick<Entrant, "name" | "kind" | "lacks">;
  /** One per round. */
  readonly found: Found[];
  failure: string | undefined;
}

export async function heldSections(
  counted: Counted,
  effort: HeldEffort,
  withPeers: boolean,
): Promise<Section[]> {
  const { counts, keepMs, rounds } = effort;
  const engines = Object.entries(entrantsOf(counted.servers, withPeers)) as [
    EngineName,
    readonly Entrant[],
  ][];
  // So that everybody has to renew while it is held.
  const ttlMs = Math.min(10_000, Math.max(3_000, keepMs / 2));
  return Promise.all(
    engines.map(async ([engine, entrants]): Promise<Section> => {
      const records = counts.map((count) => ({ count, all: entrants.map(newTally) }));
      for (let round = 1; round <= rounds; round += 1)
        for (const { count, all } of records)
          for (const each of all)
            await attempt(each, () =>
              hold(each.entrant, count, { keepMs, ttlMs }, () => counted.requests(engine)),
            );
      const named = records.map(({ count, all }) => ({
        name: `${count.toLocaleString("en")} locks`,
        all,
      }));
      return {
        title: `${engine}: many locks held`,
        method: `Held for ${keepMs / 1_000} s after all were taken, ttl ${ttlMs / 1_000} s, each library renewing in its own way; rounds: ${rounds}, median, (min-max). Requests are counted at the server; CPU and memory are those of the process that holds; lost are those of all rounds.`,
        rows: named.flatMap(({ name, all }) => rowsOf(name, all)),
        series: named.flatMap(({ name, all }) => seriesOf(name, all)),
      };
    }),
  );
}

interface Held extends Tally {
  readonly entrant: Entrant;
}

function newTally(entrant: Entrant): Held {
  const { cannotHold } = entrant;
  const failure = cannotHold === undefined ? undefined : `not measured: ${cannotHold}`;
  return { entrant, found: [], failure };
}

/** Whoever failed once is not asked again. */
async function attempt(record: Held, measure: () => Promise<Found>): Promise<void> {
  if (record.failure !== undefined) return;
  try {
    record.found.push(await measure());
  } catch (error) {
    record.failure = `failed: ${(error as Error).message.split("\n")[0]}`;
  }
}

async function hold(
  { library, url }: Entrant,
  count: number,
  { keepMs, ttlMs }: { readonly keepMs: number; readonly ttlMs: number },
  ask: () => Promise<number> | undefined,
): Promise<Found> {
  const worker = startWorker("holding.mjs", library, url, String(ttlMs));
  try {
    await heard(worker);
    await answer(worker, { take: count });
    // Some servers tell their figures a little late.
    await sleep(500);
    const before = await ask();
    const kept = await answer<Kept>(worker, { keepMs });
    const after = await ask();
    const requests = before === undefined || after === undefined ? undefined : after - before;
    return { ...kept, requests };
  } finally {
    await endWorker(worker);
  }
}

/** A library that failed in one round has no figures of the others. */
export function rowsOf(name: string, records: readonly Tally[]): Row[] {
  const ours = records.find(({ entrant }) => entrant.kind === "ours");
  return records.map((record): Row => {
    const { entrant, found, failure } = record;
    const what = `${name}: ${entrant.name}`;
    const isOurs = entrant.kind === "ours";
    if (failure !== undefined)
      return isOurs ? { what, measured: failure, ok: false } : { what, measured: failure };
    const lost = found.reduce((sum, each) => sum + each.lost, 0);
    const requests = requestsOf(record);
    const measured = [
      ...(requests.length === 0 ? [] : [`${shown(requests)} requests`]),
      `${shown(found.map(({ cpuMs }) => cpuMs))} ms of CPU`,
      `${shown(found.map(({ rssMB }) => rssMB))} MB`,
      `${lost} lost`,
    ].join(", ");
    if (isOurs) return { what, measured, target: "0 lost", ok: lost === 0 };
    if (ours === undefined || ours.failure !== undefined) return { what, measured };
    const isNoMore = cpuOf(ours) <= cpuOf(record) + NOISE_MS && asked(ours) <= asked(record);
    const { name: peer, lacks: why } = entrant;
    if (isNoMore) return { what, measured, target: "tenure needs no more", ok: true };
    if (why !== undefined) return { what, measured, target: why, ahead: { peer, why } };
    return { what, measured, target: "tenure needs no more", ok: false, ahead: { peer } };
  });
}

function seriesOf(name: string, records: readonly Tally[]): Series[] {
  const measured = records.filter(({ failure }) => failure === undefined);
  return measured.flatMap((record): Series[] => {
    const of = { name: record.entrant.name, kind: record.entrant.kind };
    const requests = requestsOf(record);
    const cpuMs = record.found.map((each) => each.cpuMs);
    const cpu: Series = { figure: `${name}, CPU`, unit: "ms", ...of, values: cpuMs };
    if (requests.length === 0) return [cpu];
    return [{ figure: `${name}, requests`, unit: "requests", ...of, values: requests }, cpu];
  });
}

/** None where there is no server. */
function requestsOf({ found }: Tally): number[] {
  return found.flatMap(({ requests }) => (requests === undefined ? [] : [requests]));
}

function asked(record: Tally): number {
  const requests = requestsOf(record);
  return requests.length === 0 ? 0 : median(requests);
}

function cpuOf({ found }: Tally): number {
  return median(found.map(({ cpuMs }) => cpuMs));
}

function shown(values: readonly number[]): string {
  const middle = Math.round(median(values));
  return values.length === 1 ? String(middle) : `${middle} (${spread(values, 0)})`;
}
