// That a fire has begun is remembered by a mark: a lease that is left behind (holder/unrenewed.ts), so that it outlives the run
// and the process. Marks are made only by whoever holds the lease on the key.

import { withLimit } from "../async/waits.ts";
import { StoreUnavailableError, StoreUnusableError } from "../core/errors.ts";
import { openUnrenewed, type Unrenewed, type UnrenewedParts } from "../holder/unrenewed.ts";
import type { HolderView, Store } from "../stores/contract.ts";
import { type Due, marksOf } from "./fire.ts";

export interface Taken {
  readonly kind: "taken";
  /** Who ran it. */
  readonly by: string;
}

/** This fire is ours. `giveBack` is for when nothing was started: another may run it then. */
export interface Marked {
  readonly kind: "marked";
  giveBack(): Promise<void>;
}

interface Mark {
  readonly resource: string;
  readonly holder: HolderView | undefined;
}

/** A request of somebody who has lost the lease may come in between; it is looked again then. */
const TRIES_MAX = 3;

/** Who has had this fire, as far as the store remembers. */
export async function whoRan(parts: UnrenewedParts, due: Due): Promise<Taken | undefined> {
  return takenBy(await readMarks(parts, due), due);
}

/** Marks the fire as begun, unless it or a later one was. To be called under the lease on the key. */
export async function markFire(parts: UnrenewedParts, due: Due): Promise<Taken | Marked> {
  const left = await openUnrenewed(parts, due.heldMs);
  let marked = false;
  try {
    if (left.ttlMs < due.heldMs) throw tooLong(parts.store, due, left.ttlMs);
    const taken = await makeMark(parts, due, left);
    if (taken !== undefined) return taken;
    marked = true;
    return { kind: "marked", giveBack: () => left.end() };
  } finally {
    // Also when the answer was lost: then nobody runs, and nobody is kept from it.
    if (!marked) await left.end();
  }
}

async function makeMark(
  parts: UnrenewedParts,
  due: Due,
  left: Unrenewed,
): Promise<Taken | undefined> {
  const { atMs, windowMs } = due;
  const value = atMs === undefined ? { windowMs } : { atMs };
  for (let tries = 0; tries < TRIES_MAX; tries += 1) {
    const marks = await readMarks(parts, due);
    const taken = takenBy(marks, due);
    if (taken !== undefined) return taken;
    const { resource, holder } = placeFor(marks);
    if (holder !== undefined) await remove(parts, resource, holder.token);
    const { kind } = await left.grant(resource, value);
    if (kind === "granted") return undefined;
    if (kind !== "busy") break;
  }
  throw new StoreUnavailableError(
    `The store could not remember that "${due.key}" runs, so it does not run.`,
    { applied: "no", resource: due.key },
  );
}

/** The one that is free, or the earlier of the two: the later must stand. */
function placeFor(marks: readonly Mark[]): Mark {
  const free = marks.find(({ holder }) => holder === undefined);
  const [earliest] = [...marks].sort((a, b) => fireOf(a) - fireOf(b));
  return free ?? (earliest as Mark);
}

function takenBy(marks: readonly Mark[], due: Due): Taken | undefined {
  for (const mark of marks) {
    if (mark.holder === undefined) continue;
    if (due.atMs === undefined || fireOf(mark) >= due.atMs)
      return { kind: "taken", by: mark.holder.holderId };
  }
  return undefined;
}

/** A mark without an instant stands for every fire as long as it lasts. */
function fireOf({ holder }: Mark): number {
  const value = holder?.value as { readonly atMs?: unknown } | null | undefined;
  return typeof value?.atMs === "number" ? value.atMs : Number.POSITIVE_INFINITY;
}

function readMarks(
  { store, clock, limitMs }: UnrenewedParts,
  { key }: Due,
): Promise<readonly Mark[]> {
  const read = async (resource: string): Promise<Mark> => {
    const { holder } = await withLimit(clock, limitMs, "read", () =>
      store.read({ resource, consistency: "linearizable", limitMs }),
    );
    return { resource, holder };
  };
  return Promise.all(marksOf(key).map(read));
}

async function remove(parts: UnrenewedParts, resource: string, token: bigint): Promise<void> {
  const { store, clock, limitMs } = parts;
  await withLimit(clock, limitMs, "revocation", () => store.revoke({ resource, token, limitMs }));
}

function tooLong(store: Store, due: Due, grantedMs: number): StoreUnusableError {
  const { store: name } = store.guarantees;
  return new StoreUnusableError(
    `"${due.key}" cannot run once in ${due.windowMs} ms: the ${name} store remembers a session for at most ` +
      `${grantedMs} ms. Use a shorter window, or another store.`,
  );
}
