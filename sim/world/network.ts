// Delivers messages between programs, with the faults of a real network. A message may be slow and
// overtaken by a later one, lost, or delivered twice. It may wait at a cut, as in a socket buffer,
// and arrive long after its sender gave up. A cut has a direction: answers can be lost while
// requests still arrive.

import type { Chance } from "./chance.ts";
import type { Program } from "./program.ts";
import type { Schedule } from "./schedule.ts";
import type { Trace } from "./trace.ts";

/** How the network treats messages: a probability for each fault, 0 if the seed did not draw it. */
export interface Weather {
  readonly loss: number;
  readonly duplicate: number;
  readonly slow: number;
  /** Probability of a very long delay, as for a retransmission after an outage. */
  readonly veryLate: number;
  /** The longest delay of a slow message. */
  readonly slowMs: number;
  /** The longest delay of any other message. */
  readonly usualMs: number;
}

/** A network without faults or delays. */
export const FINE: Weather = { loss: 0, duplicate: 0, slow: 0, veryLate: 0, slowMs: 0, usualMs: 0 };
/** The first retransmission timeout of TCP. */
const RETRANSMIT_MS = 200;
const VERY_LATE_MS = 12_000;
/** No message takes longer in the calm phase. */
export const CALM_MAX_MS = 6;

export class Network {
  readonly #schedule: Schedule;
  readonly #chance: Chance;
  readonly #trace: Trace;
  #weather: Weather;
  /** The paths that are cut, with the messages that wait there. */
  readonly #cuts = new Map<string, (() => void)[]>();

  constructor(parts: { schedule: Schedule; chance: Chance; trace: Trace; weather: Weather }) {
    this.#schedule = parts.schedule;
    this.#chance = parts.chance;
    this.#trace = parts.trace;
    this.#weather = parts.weather;
  }

  /** Sends a datagram. `arrive` runs in a turn of the receiver: never, once, or more than once. */
  send(from: Program, to: Program, arrive: () => void): void {
    from.send(() => this.#depart(from, to, arrive));
  }

  /**
   * Opens one direction of a TCP connection: every message arrives once and in order, and a lost
   * one is retransmitted. `mostMs` limits the delay of a single message. `onLate` is called with
   * the arrival time of a message that takes longer than any in the calm phase; later messages wait
   * for it.
   */
  openStream(
    from: Program,
    to: Program,
    mostMs: number = Number.POSITIVE_INFINITY,
    onLate?: (arrivesAt: number) => void,
  ): (arrive: () => void) => void {
    let lastAt = 0;
    const travel = (arrive: () => void): void => {
      const waiting = this.#cuts.get(toPath(from.name, to.name));
      if (waiting !== undefined) {
        this.#trace.count("cut off");
        waiting.push(() => travel(arrive));
        return;
      }
      const retransmitMs = this.#draw(this.#weather.loss, "loss") ? RETRANSMIT_MS : 0;
      const delayMs = Math.min(mostMs, this.#delayMs() + retransmitMs);
      lastAt = Math.max(lastAt, this.#schedule.now + delayMs);
      if (lastAt > this.#schedule.now + CALM_MAX_MS) onLate?.(lastAt);
      this.#schedule.at(lastAt, () => to.receive(arrive));
    };
    return (arrive) => from.send(() => travel(arrive));
  }

  /** Draws the delay of a local operation that cannot get lost, such as a flush to disk. */
  drawLocalDelayMs(): number {
    const { slow, slowMs, usualMs } = this.#weather;
    const usual = this.#chance.between(usualMs / 80, usualMs / 4);
    return this.#draw(slow, "slow") ? usual + this.#chance.between(0, slowMs / 50) : usual;
  }

  cut(from: string, to: string): void {
    const path = toPath(from, to);
    if (!this.#cuts.has(path)) this.#cuts.set(path, []);
  }

  heal(from: string, to: string): void {
    const path = toPath(from, to);
    const waiting = this.#cuts.get(path) ?? [];
    this.#cuts.delete(path);
    for (const go of waiting) go();
  }

  /** Ends all faults. Messages under way keep their delay. */
  calm(): void {
    for (const path of [...this.#cuts.keys()]) {
      const [from = "", to = ""] = path.split(">");
      this.heal(from, to);
    }
    this.#weather = { ...FINE, usualMs: this.#weather.usualMs };
  }

  #depart(from: Program, to: Program, arrive: () => void): void {
    const { loss, duplicate } = this.#weather;
    if (this.#draw(duplicate, "duplicate")) this.#travel(from, to, arrive);
    if (this.#draw(loss, "loss")) return;
    this.#travel(from, to, arrive);
  }

  #travel(from: Program, to: Program, arrive: () => void): void {
    const waiting = this.#cuts.get(toPath(from.name, to.name));
    if (waiting !== undefined) {
      // Half of the messages stay in a socket buffer until the path is back; the rest are lost.
      this.#trace.count("cut off");
      if (this.#chance.isTrue(0.5)) waiting.push(() => this.#travel(from, to, arrive));
      return;
    }
    this.#schedule.after(this.#delayMs(), () => to.receive(arrive));
  }

  #delayMs(): number {
    const { slow, slowMs, veryLate, usualMs } = this.#weather;
    const usual = this.#chance.between(usualMs / 20, usualMs);
    if (this.#draw(veryLate, "very late")) return this.#chance.between(slowMs, VERY_LATE_MS);
    if (this.#draw(slow, "slow")) return usual + this.#chance.between(0, slowMs);
    return usual;
  }

  #draw(probability: number, fault: string): boolean {
    if (probability === 0 || !this.#chance.isTrue(probability)) return false;
    this.#trace.count(fault);
    return true;
  }
}

function toPath(from: string, to: string): string {
  return `${from}>${to}`;
}
