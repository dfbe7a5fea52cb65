// Thousands of locks held by one process: what keeping them asks of the server, of the process and of its memory, and whether
// one is lost. The engines are measured beside each other, the libraries of one engine one behind the other.

import { setTimeout as sleep } from "node:timers/promises";
import type { Row, Section, Series } from "../support.ts";
import { answer, endWorker, heard, startWorker } from "../workers.ts";
import type { Counted } from "./counted.ts";
import { type EngineName, type Entrant, entrantsOf } from "./entrants.ts";

/** What a process costs that holds nothing, and what its clock cannot tell apart. */
const NOISE_MS = 40;

export interface HeldEffort {
  readonly counts: readonly number[];
  readonly keepMs: number;
}

interface Kept {
  readonly cpuMs: number;
  readonly rssMB: number;
  readonly lost: number;
}

interface Found extends Kept {
  readonly requests: number | undefined;
}

export async function heldSections(
  counted: Counted,
  { counts, keepMs }: HeldEffort,
  withPeers: boolean,
): Promise<Section[]> {
  const engines = Object.entries(entrantsOf(counted.servers, withPeers)) as [
    EngineName,
    readonly Entrant[],
  ][];
  // So that everybody has to renew while it is held.
  const ttlMs = Math.min(10_000, Math.max(5_000, keepMs / 2));
  return Promise.all(
    engines.map(async ([engine, entrants]): Promise<Section> => {
      const rows: Row[] = [];
      const series: Series[] = [];
      for (const count of counts) {
        const name = `${count.toLocaleString("en")} locks`;
        const found = new Map<Entrant, Found>();
        for (const entrant of entrants) {
          if (entrant.cannotHold !== undefined) {
            const what = `${name}: ${entrant.name}`;
            rows.push({ what, measured: `not measured: ${entrant.cannotHold}` });
            continue;
          }
          try {
            found.set(
              entrant,
              await hold(entrant, count, { keepMs, ttlMs }, () => counted.requests(engine)),
            );
          } catch (error) {
            const row = { what: `${name}: ${entrant.name}`, measured: failure(error) };
            rows.push(entrant.kind === "ours" ? { ...row, ok: false } : row);
          }
        }
        rows.push(...rowsOf(name, found));
        for (const [{ name: who, kind }, { requests, cpuMs }] of found) {
          const of = { name: who, kind };
          if (requests !== undefined)
            series.push({
              figure: `${name}, requests`,
              unit: "requests",
              ...of,
              values: [requests],
            });
          series.push({ figure: `${name}, CPU`, unit: "ms", ...of, values: [cpuMs] });
        }
      }
      return {
        title: `${engine}: many locks held`,
        method: `Held for ${keepMs / 1_000} s after all were taken, ttl ${ttlMs / 1_000} s, each library renewing in its own way; one round. Requests are counted at the server; CPU and memory are those of the process that holds.`,
        rows,
        series,
      };
    }),
  );
}

function failure(error: unknown): string {
  return `failed: ${(error as Error).message.split("\n")[0]}`;
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

function rowsOf(name: string, found: ReadonlyMap<Entrant, Found>): Row[] {
  const [ours] = [...found].filter(([{ kind }]) => kind === "ours").map(([, each]) => each);
  return [...found].map(([entrant, each]): Row => {
    const asked = each.requests === undefined ? "" : `${each.requests} requests, `;
    const row = {
      what: `${name}: ${entrant.name}`,
      measured: `${asked}${Math.round(each.cpuMs)} ms of CPU, ${Math.round(each.rssMB)} MB, ${each.lost} lost`,
    };
    if (each === ours) return { ...row, target: "0 lost", ok: each.lost === 0 };
    if (ours === undefined) return row;
    const isAhead =
      ours.cpuMs <= each.cpuMs + NOISE_MS && (ours.requests ?? 0) <= (each.requests ?? 0);
    if (!isAhead && entrant.lacks !== undefined) return { ...row, target: entrant.lacks };
    return { ...row, target: "tenure needs no more", ok: isAhead };
  });
}
