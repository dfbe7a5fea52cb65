// The demo's voice: one line per event, elapsed seconds on the left, then who, then a plain sentence.

import type { Clock } from "../../src/async/clock.ts";
import type { Paint, Style } from "../../src/cli/output/paint.ts";
import { assertNever } from "../../src/core/assert.ts";
import type { Seen } from "./messages.ts";

const WORKER_STYLES: readonly Style[] = ["cyan", "magenta", "yellow"];

export interface NarratorParts {
  readonly clock: Clock;
  readonly names: readonly string[];
  readonly paint: Paint;
  readonly print: (line: string) => void;
}

export class Narrator {
  readonly #parts: NarratorParts;
  readonly #startedAt: number;
  readonly #nameWidth: number;
  /** Entries that were written and not told yet: told as one line when something else happens. */
  #untold: { who: string; token: string; count: number } | undefined;
  #since: { readonly atMs: number; readonly what: string } | undefined;

  constructor(parts: NarratorParts) {
    this.#parts = parts;
    this.#startedAt = parts.clock.now();
    this.#nameWidth = Math.max(...parts.names.map((name) => name.length));
  }

  heading(text: string): void {
    this.#tellWrites();
    this.#parts.print(`\n${this.#parts.paint("bold", text)}`);
  }

  /** A line about one worker, or about nobody when `who` is empty. */
  say(who: string, sentence: string): void {
    this.#tellWrites();
    this.#line(who, sentence);
  }

  /** The next grant is told with its distance to this moment. */
  measureFrom(atMs: number, what: string): void {
    this.#since = { atMs, what };
  }

  tell({ from, atMs, report }: Seen): void {
    const { paint } = this.#parts;
    switch (report.type) {
      case "wrote":
        this.#countWrite(from, report.token);
        return;
      case "granted":
        this.say(
          from,
          `holds the lease, token ${paint("bold", report.token)}${this.#distance(atMs)}`,
        );
        return;
      case "armed":
        this.say(from, `asks check(): yes, token ${report.token} may write`);
        return;
      case "refused": {
        const why = `token ${report.token} is stale, the ledger has seen ${report.highest}`;
        this.say(from, `does its late write: ${paint("green", "refused")}, ${why}`);
        return;
      }
      case "accepted":
        this.say(from, paint("red", `does its late write: accepted with token ${report.token}`));
        return;
      case "checked":
        this.say(
          from,
          report.code === undefined
            ? report.reason
            : `asks check() again: it throws ${report.code}; queues anew`,
        );
        return;
      case "lost":
        this.say(from, paint("yellow", `lost the lease: ${report.reason}`));
        return;
      case "left": {
        const next =
          report.successor === undefined ? "nobody took over" : `${report.successor} has it`;
        this.say(from, `saw its lease ${report.release} and that ${next}; exits`);
        return;
      }
      case "ready":
        this.say(from, `started, process ${report.pid}`);
        return;
      case "failed":
        // Told once, by whoever it makes fail.
        return;
      default:
        assertNever(report);
    }
  }

  #distance(atMs: number): string {
    if (this.#since === undefined) return "";
    const { atMs: from, what } = this.#since;
    this.#since = undefined;
    return `, ${this.#parts.paint("bold", milliseconds(atMs - from))} ${what}`;
  }

  #countWrite(who: string, token: string): void {
    if (this.#untold?.who !== who || this.#untold.token !== token) this.#tellWrites();
    this.#untold = { who, token, count: (this.#untold?.count ?? 0) + 1 };
  }

  #tellWrites(): void {
    if (this.#untold === undefined) return;
    const { who, token, count } = this.#untold;
    this.#untold = undefined;
    const entries = count === 1 ? "1 entry" : `${count} entries`;
    this.#line(who, this.#parts.paint("dim", `wrote ${entries} with token ${token}`));
  }

  #line(who: string, sentence: string): void {
    const { clock, names, paint, print } = this.#parts;
    const elapsed = `${((clock.now() - this.#startedAt) / 1000).toFixed(1).padStart(6)} s`;
    const style = WORKER_STYLES[names.indexOf(who) % WORKER_STYLES.length] ?? "dim";
    print(`${paint("dim", elapsed)}  ${paint(style, who.padEnd(this.#nameWidth))}  ${sentence}`);
  }
}

/** "4.2 ms", "1 702 ms": one decimal below a hundred, digits in groups above. */
export function milliseconds(ms: number): string {
  if (ms < 100) return `${ms.toFixed(1)} ms`;
  return `${Math.round(ms)
    .toString()
    .replace(/\B(?=(\d{3})+$)/g, ",")} ms`;
}
