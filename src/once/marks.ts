// That a fire has begun is remembered by a mark: a lease with a session of its own that nobody renews and nobody releases, so
// it ends by the store's clock and needs no process to stay. Marks are made only by whoever holds the lease on the key.

import type { Clock, Random } from "../core/clock.ts";
import { isTenureError, StoreUnavailableError, StoreUnusableError } from "../core/errors.ts";
import { withLimit } from "../holder/waits.ts";
import type { GrantOutcome, HolderView, Store } from "../stores/store.ts";
import { type Due, marksOf } from "./fire.ts";

export interface MarkParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  /** For each request. */
  readonly limitMs: number;
}

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

/** A lost answer is asked for again under the same attempt; so is one that somebody else's late request came before. */
const TRIES_MAX = 3;

/** Who has had this fire, as far as the store remembers. */
export async function whoRan(parts: MarkParts, due: Due): Promise<Taken | undefined> {
  return takenBy(await readMarks(parts, due), due);
}

/** Marks the fire as begun, unless it or a later one was. To be called under the lease on the key. */
export async function markFire(parts: MarkParts, due: Due): Promise<Taken | Marked> {
  const { store, clock, random, holderId, limitMs } = parts;
  const { heldMs } = due;
  const sessionId = random.id();
  const giveBack = (): Promise<void> =>
    withLimit(clock, limitMs, "end of a session", () =>
      store.endSession({ sessionId, limitMs }),
    ).catch(() => undefined);
  let marked = false;
  try {
    const opened = await withLimit(clock, limitMs, "opening of a session", () =>
      store.openSession({ sessionId, holderId, ttlMs: heldMs, limitMs }),
    );
    if (opened.ttlMs < heldMs) throw tooLong(store, due, opened.ttlMs);
    const taken = await makeMark(parts, due, sessionId);
    if (taken !== undefined) return taken;
    marked = true;
    // Over at the store by then; this is for what the process keeps of a session.
    clock.setTimer(() => void giveBack(), heldMs);
    return { kind: "marked", giveBack };
  } finally {
    // Also when the answer was lost: then nobody runs, and nobody is kept from it.
    if (!marked) await giveBack();
  }
}

async function makeMark(parts: MarkParts, due: Due, sessionId: string): Promise<Taken | undefined> {
  for (let tries = 1; tries <= TRIES_MAX; tries += 1) {
    const marks = await readMarks(parts, due);
    const taken = takenBy(marks, due);
    if (taken !== undefined) return taken;
    const { resource, holder } = placeFor(marks);
    if (holder !== undefined) await remove(parts, resource, holder.token);
    const outcome = await grant(parts, due, {
      sessionId,
      resource,
      attempt: `${sessionId}.${tries}`,
    });
    if (outcome.kind === "granted") return undefined;
    if (outcome.kind !== "busy") break;
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

function readMarks({ store, clock, limitMs }: MarkParts, { key }: Due): Promise<readonly Mark[]> {
  const read = async (resource: string): Promise<Mark> => {
    const { holder } = await withLimit(clock, limitMs, "read", () =>
      store.read({ resource, consistency: "linearizable", limitMs }),
    );
    return { resource, holder };
  };
  return Promise.all(marksOf(key).map(read));
}

async function remove(parts: MarkParts, resource: string, token: bigint): Promise<void> {
  const { store, clock, limitMs } = parts;
  await withLimit(clock, limitMs, "revocation", () => store.revoke({ resource, token, limitMs }));
}

async function grant(
  parts: MarkParts,
  { atMs, windowMs }: Due,
  ids: { readonly sessionId: string; readonly resource: string; readonly attempt: string },
): Promise<GrantOutcome> {
  const { store, clock, holderId, limitMs } = parts;
  const value = atMs === undefined ? { windowMs } : { atMs };
  const request = { ...ids, holderId, value, queue: false, limitMs };
  for (let failures = 0; ; ) {
    try {
      return await withLimit(clock, limitMs, "request for a grant", () => store.grant(request));
    } catch (error) {
      failures += 1;
      if (failures === TRIES_MAX || !isTenureError(error, "STORE_UNAVAILABLE")) throw error;
    }
  }
}

function tooLong(store: Store, due: Due, grantedMs: number): StoreUnusableError {
  const { store: name } = store.guarantees;
  return new StoreUnusableError(
    `"${due.key}" cannot run once in ${due.windowMs} ms: the ${name} store remembers a session for at most ` +
      `${grantedMs} ms. Use a shorter window, or another store.`,
  );
}
