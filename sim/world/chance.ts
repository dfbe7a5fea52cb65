// Random numbers that depend only on the seed (sfc32). Each part of the world draws from a named
// stream of its own, so that a change in one part does not change the numbers of the others.
// Shrinking a failure relies on this.

import type { Random } from "../../src/async/clock.ts";

export class Chance implements Random {
  readonly #seed: string;
  #a: number;
  #b: number;
  #c: number;
  #counter = 1;

  constructor(seed: string) {
    this.#seed = seed;
    [this.#a, this.#b, this.#c] = [digest(seed, 1), digest(seed, 2), digest(seed, 3)];
    for (let turn = 0; turn < 12; turn += 1) this.#next();
  }

  /** Creates a stream that depends only on the seed and this name. */
  stream(name: string): Chance {
    return new Chance(`${this.#seed}/${name}`);
  }

  next(): number {
    return this.#next() / 0x1_0000_0000;
  }

  id(): string {
    let text = "";
    for (let part = 0; part < 4; part += 1) text += this.#next().toString(16).padStart(8, "0");
    return text;
  }

  isTrue(probability: number): boolean {
    return this.next() < probability;
  }

  between(low: number, high: number): number {
    return low + (high - low) * this.next();
  }

  /** A whole number from 0 up to, but excluding, `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count);
  }

  pick<T>(from: readonly T[]): T {
    const picked = from[this.below(from.length)];
    if (picked === undefined) throw new Error("pick() needs a list that is not empty.");
    return picked;
  }

  #next(): number {
    const sum = (this.#a + this.#b + this.#counter) | 0;
    this.#counter = (this.#counter + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum;
    this.#c |= 0;
    return sum >>> 0;
  }
}

/** FNV-1a with a chosen starting value. */
export function digest(text: string, start: number): number {
  let hash = (0x811c_9dc5 ^ Math.imul(start, 0x9e37_79b1)) | 0;
  for (let index = 0; index < text.length; index += 1)
    hash = Math.imul(hash ^ text.charCodeAt(index), 0x0100_0193);
  return hash;
}
