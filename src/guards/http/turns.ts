// Makes comparison and handler one step within this process: a handler starts only when no handler of a lower token runs,
// and none of a lower token starts once a higher one has been admitted. Requests of one term run side by side, so a holder
// pays nothing; only the first requests of a successor wait, for what its predecessor still has in progress here.

import type { Guard, TokenSource } from "../guard.ts";

interface Place {
  readonly token: bigint;
  readonly left: Promise<void>;
}

export class CrowdedError extends Error {}

/** Bounds what a handler that never ends can pile up behind it. */
const WAITING_MAX = 1_000;

export class Turns {
  readonly #guard: Guard;
  readonly #places = new Map<string, Set<Place>>();

  constructor(guard: Guard) {
    this.#guard = guard;
  }

  /** Resolves with the function that gives the turn back; rejects with what the guard says. */
  async enter(source: TokenSource): Promise<() => void> {
    const { resource, token } = source;
    const places = this.#places.get(resource) ?? new Set<Place>();
    if (places.size >= WAITING_MAX) throw new CrowdedError();
    let leave = (): void => undefined;
    const left = new Promise<void>((resolve) => {
      leave = resolve;
    });
    const place: Place = { token, left };
    // Taken before the guard is asked: whoever is admitted later with a higher token sees this one and waits for it.
    this.#places.set(resource, places.add(place));
    const giveBack = (): void => {
      places.delete(place);
      if (places.size === 0 && this.#places.get(resource) === places) this.#places.delete(resource);
      leave();
    };
    try {
      for (;;) {
        // Asked again after every wait: a still newer holder may have come meanwhile.
        await this.#guard.raise(source);
        const older = [...places].filter((other) => other.token < token);
        if (older.length === 0) return giveBack;
        await Promise.all(older.map((other) => other.left));
      }
    } catch (error) {
      giveBack();
      throw error;
    }
  }
}
