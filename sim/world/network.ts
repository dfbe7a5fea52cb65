// Messages between programs, and everything that can happen to one: it takes longer than others and is overtaken, gets
// lost, arrives twice, waits behind a cut as in a socket's buffer and arrives long after its sender gave up, or comes again
// much later. A cut has a direction: answers can be lost while requests arrive.

import type { Chance } from "./chance.ts";
import type { Program } from "./program.ts";
import type { Schedule } from "./schedule.ts";
import type { Trace } from "./trace.ts";

/** Probabilities for each message; 0 where the seed did not draw the fault. */
export interface Weather {
  readonly loss: number;
  readonly duplicate: number;
  readonly slow: number;
  /** Very late: as a retransmission behind a long outage. */
  readonly veryLate: number;
  /** Longest of the slow ones. */
  readonly slowMs: number;
  /** Longest of the others. */
  readonly usualMs: number;
}

/** Nothing happens to messages, and they take no time. */
export const FINE: Weather = { loss: 0, duplicate: 0, slow: 0, veryLate: 0, slowMs: 0, usualMs: 0 };
/** TCP sends again after this long at first. */
const SENT_AGAIN_MS = 200;
const VERY_LATE_MS = 12_000;
/** In the calm no message takes longer. */
export const CALM_MAX_MS = 6;

export class Network {
  readonly #schedule: Schedule;
  readonly #chance: Chance;
  readonly #trace: Trace;
  #weather: Weather;
  /** From whom to whom nothing passes, and what waits there. */
  readonly #cuts = new Map<string, (() => void)[]>();

  constructor(parts: { schedule: Schedule; chance: Chance; trace: Trace; weather: Weather }) {
    this.#schedule = parts.schedule;
    this.#chance = parts.chance;
    this.#trace = parts.trace;
    this.#weather = parts.weather;
  }

  /** `arrive` runs in a turn of the receiver; not at all, once, or more often. */
  send(from: Program, to: Program, arrive: () => void): void {
    from.send(() => this.#depart(from, to, arrive));
  }

  /**
   * A connection's one direction: everything arrives, once and in order, sent again where it got lost. `mostMs`: no message alone
   * takes longer. `onLate` hears when what has just left will arrive, where that is later than any in the calm: so is all behind it.
   */
  orderly(
    from: Program,
    to: Program,
    mostMs: number = Number.POSITIVE_INFINITY,
    onLate?: (arrivesAt: number) => void,
  ): (arrive: () => void) => void {
    let lastAt = 0;
    const travel = (arrive: () => void): void => {
      const waiting = this.#cuts.get(pathOf(from.name, to.name));
      if (waiting !== undefined) {
        this.#trace.count("cut off");
        waiting.push(() => travel(arrive));
        return;
      }
      const againMs = this.#happens(this.#weather.loss, "loss") ? SENT_AGAIN_MS : 0;
      const takesMs = Math.min(mostMs, this.#delayMs() + againMs);
      lastAt = Math.max(lastAt, this.#schedule.now + takesMs);
      if (lastAt > this.#schedule.now + CALM_MAX_MS) onLate?.(lastAt);
      this.#schedule.at(lastAt, () => to.receive(arrive));
    };
    return (arrive) => from.send(() => travel(arrive));
  }

  /** For what is near and cannot get lost, as a flush to the disk: it only takes its time. */
  nearMs(): number {
    const { slow, slowMs, usualMs } = this.#weather;
    const usual = this.#chance.between(usualMs / 80, usualMs / 4);
    return this.#happens(slow, "slow") ? usual + this.#chance.between(0, slowMs / 50) : usual;
  }

  cut(from: string, to: string): void {
    const path = pathOf(from, to);
    if (!this.#cuts.has(path)) this.#cuts.set(path, []);
  }

  heal(from: string, to: string): void {
    const path = pathOf(from, to);
    const waiting = this.#cuts.get(path) ?? [];
    this.#cuts.delete(path);
    for (const go of waiting) go();
  }

  /** No faults from now on; what is on its way stays on its way. */
  calm(): void {
    for (const path of [...this.#cuts.keys()]) {
      const [from = "", to = ""] = path.split(">");
      this.heal(from, to);
    }
    this.#weather = { ...FINE, usualMs: this.#weather.usualMs };
  }

  #depart(from: Program, to: Program, arrive: () => void): void {
    const { loss, duplicate } = this.#weather;
    if (this.#happens(duplicate, "duplicate")) this.#travel(from, to, arrive);
    if (this.#happens(loss, "loss")) return;
    this.#travel(from, to, arrive);
  }

  #travel(from: Program, to: Program, arrive: () => void): void {
    const waiting = this.#cuts.get(pathOf(from.name, to.name));
    if (waiting !== undefined) {
      // What a socket's buffer kept is sent again when the path is back; the rest is gone.
      this.#trace.count("cut off");
      if (this.#chance.isTrue(0.5)) waiting.push(() => this.#travel(from, to, arrive));
      return;
    }
    this.#schedule.after(this.#delayMs(), () => to.receive(arrive));
  }

  #delayMs(): number {
    const { slow, slowMs, veryLate, usualMs } = this.#weather;
    const usual = this.#chance.between(usualMs / 20, usualMs);
    if (this.#happens(veryLate, "very late")) return this.#chance.between(slowMs, VERY_LATE_MS);
    if (this.#happens(slow, "slow")) return usual + this.#chance.between(0, slowMs);
    return usual;
  }

  #happens(probability: number, fault: string): boolean {
    if (probability === 0 || !this.#chance.isTrue(probability)) return false;
    this.#trace.count(fault);
    return true;
  }
}

function pathOf(from: string, to: string): string {
  return `${from}>${to}`;
}
