// Several resources in one call: all of them, or any one of them. Each is an ordinary resource with
// its own lease and token, so guards work unchanged.

import type { Clock, Random } from "../async/clock.ts";
import { linkSignals } from "../async/signals.ts";
import { AcquireTimeoutError, InvalidArgumentError } from "../core/errors.ts";
import type { HeldLease } from "./held-lease.ts";
import type { AcquireOptions } from "./options.ts";

export interface SeveralParts {
  readonly clock: Clock;
  readonly random: Random;
  /** Requests the lease without waiting. Undefined: busy. */
  tryAcquire(resource: string, options: AcquireOptions): Promise<HeldLease | undefined>;
  /** Waits for the lease. */
  acquire(resource: string, options: AcquireOptions): Promise<HeldLease>;
}

const SLOTS_MAX = 1_000;

/** Checks the names, and rejects a name that occurs twice. */
export function checkResources(call: string, resources: unknown): readonly string[] {
  if (!Array.isArray(resources) || resources.length === 0) {
    throw new InvalidArgumentError(
      `${call} needs a list of at least one resource, e.g. ["a", "b"].`,
    );
  }
  const repeated = resources.find((name, index) => resources.indexOf(name) !== index);
  if (repeated === undefined) return resources;
  throw new InvalidArgumentError(`${call} got the resource "${String(repeated)}" twice.`);
}

/** The resources of a semaphore: "gpu#1", "gpu#2", ... */
export function toSlots(resource: string, slots: unknown): readonly string[] {
  if (!Number.isInteger(slots) || Number(slots) < 1 || Number(slots) > SLOTS_MAX) {
    throw new InvalidArgumentError(
      `\`slots\` must be a whole number from 1 to ${SLOTS_MAX}, got ${String(slots)}.`,
    );
  }
  return Array.from({ length: Number(slots) }, (_, index) => `${resource}#${index + 1}`);
}

/**
 * Acquires all resources or none, and returns the leases in the order of `resources`. It never
 * waits for a resource while it holds one with a later name, so two calls cannot wait for each
 * other.
 */
export async function acquireAll(
  parts: SeveralParts,
  resources: readonly string[],
  options: AcquireOptions & { readonly waitMs: number },
): Promise<readonly HeldLease[]> {
  const untilMs = parts.clock.now() + options.waitMs;
  const names = [...resources].sort();
  // In one turn, so that the store can combine the requests.
  const tries = names.map((name) => parts.tryAcquire(name, options).catch(() => undefined));
  const held = (await Promise.all(tries)).filter((lease) => lease !== undefined);
  try {
    const inOrder = held.filter(({ resource }, index) => resource === names[index]);
    await releaseAll(held.filter((lease) => !inOrder.includes(lease)));
    held.splice(0, held.length, ...inOrder);
    for (const name of names.slice(held.length)) {
      const waitMs = Math.max(0, untilMs - parts.clock.now());
      held.push(await parts.acquire(name, { ...options, waitMs }));
    }
  } catch (error) {
    await releaseAll(held);
    throw error;
  }
  return resources.flatMap((name) => held.find(({ resource }) => resource === name) ?? []);
}

/**
 * Acquires one of the resources. It waits in all queues, and leaves the others when one of them
 * grants.
 */
export async function acquireAny(
  parts: SeveralParts,
  resources: readonly string[],
  options: AcquireOptions & { readonly waitMs: number },
): Promise<HeldLease> {
  const untilMs = parts.clock.now() + options.waitMs;
  const free = await tryAny(parts, resources, options);
  if (free !== undefined) return free;
  const waitMs = Math.max(0, untilMs - parts.clock.now());
  const done = new AbortController();
  const { signal, unlink } = linkSignals(options.signal, done.signal);
  const waits = resources.map((name) => parts.acquire(name, { ...options, waitMs, signal }));
  let winner: HeldLease | undefined;
  try {
    winner = await Promise.any(waits);
    return winner;
  } catch (error) {
    throw pickError((error as AggregateError).errors);
  } finally {
    done.abort("another resource was granted");
    unlink();
    // Two queues may have granted at the same time.
    for (const wait of waits)
      wait.then(
        (lease) => (lease === winner ? undefined : lease.startRelease()),
        () => undefined,
      );
  }
}

/** Tries one resource after the other, so that it never takes more than one. */
export async function tryAny(
  { random, tryAcquire }: SeveralParts,
  resources: readonly string[],
  options: AcquireOptions,
): Promise<HeldLease | undefined> {
  // The callers begin at different ones, so that most find a free one at once.
  const begin = Math.floor(random.next() * resources.length);
  for (const name of [...resources.slice(begin), ...resources.slice(0, begin)]) {
    options.signal?.throwIfAborted();
    const lease = await tryAcquire(name, options);
    if (lease !== undefined) return lease;
  }
  return undefined;
}

/** Runs the work under all leases. */
export function runUnderAll<T>(
  leases: readonly HeldLease[],
  work: () => T | Promise<T>,
): Promise<T> {
  const [first, ...others] = leases;
  if (first === undefined) return Promise.resolve().then(work);
  return first.run(() => runUnderAll(others, work));
}

export async function releaseAll(leases: readonly HeldLease[]): Promise<void> {
  await Promise.all(leases.map((lease) => lease.startRelease()));
}

/** A timeout is the least informative of the errors. */
function pickError(errors: readonly unknown[]): unknown {
  return errors.find((error) => !(error instanceof AcquireTimeoutError)) ?? errors[0];
}
