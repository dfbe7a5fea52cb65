// Prints the demo: one line per event, with the elapsed seconds, the worker and a sentence.

import type { Clock } from "../../src/async/clock.ts";
import type { Paint, Style } from "../../src/cli/output/output.ts";
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
  /** Entries that were written but not printed yet. They become one line before the next event. */
  #unprinted: { who: string; token: string; count: number } | undefined;
  #since: { readonly atMs: number; readonly what: string } | undefined;

  constructor(parts: NarratorParts) {
    this.#parts = parts;
    this.#startedAt = parts.clock.now();
    this.#nameWidth = Math.max(...parts.names.map((name) => name.length));
  }

  heading(text: string): void {
    this.#printWrites();
    this.#parts.print(`\n${this.#parts.paint("bold", text)}`);
  }

  /** Prints a line about a worker, or without a worker if `who` is empty. */
  print(who: string, sentence: string): void {
    this.#printWrites();
    this.#line(who, sentence);
  }

  /** The next grant is printed with the time since `atMs`. */
  measureFrom(atMs: number, what: string): void {
    this.#since = { atMs, what };
  }

  report({ from, atMs, report }: Seen): void {
    const { paint } = this.#parts;
    switch (report.type) {
      case "wrote":
        this.#addWrite(from, report.token);
        return;
      case "granted":
        this.print(
          from,
          `acquired the lease with token ${paint("bold", report.token)}${this.#formatDelay(atMs)}`,
        );
        return;
      case "checked":
        this.print(from, `calls check(): succeeds, token ${report.token} may write`);
        return;
      case "rejected": {
        const why = `token ${report.token} is stale, because the ledger has seen ${report.highest}`;
        this.print(from, `attempts its late write: ${paint("green", "rejected")}, ${why}`);
        return;
      }
      case "accepted":
        this.print(
          from,
          paint("red", `attempts its late write: accepted with token ${report.token}`),
        );
        return;
      case "checkedAgain":
        this.print(
          from,
          report.code === undefined
            ? report.reason
            : `calls check() again: it throws ${report.code}; waits for the lease again`,
        );
        return;
      case "lost":
        this.print(from, paint("yellow", `lost the lease: ${report.reason}`));
        return;
      case "left": {
        const next =
          report.successor === undefined ? "no worker took over" : `${report.successor} took over`;
        this.print(from, `exits: its lease was ${report.release}, ${next}`);
        return;
      }
      case "ready":
        this.print(from, `started, process ${report.pid}`);
        return;
      case "failed":
        // Team reports the failure.
        return;
      default:
        assertNever(report);
    }
  }

  #formatDelay(atMs: number): string {
    if (this.#since === undefined) return "";
    const { atMs: from, what } = this.#since;
    this.#since = undefined;
    return `, ${this.#parts.paint("bold", milliseconds(atMs - from))} ${what}`;
  }

  #addWrite(who: string, token: string): void {
    if (this.#unprinted?.who !== who || this.#unprinted.token !== token) this.#printWrites();
    this.#unprinted = { who, token, count: (this.#unprinted?.count ?? 0) + 1 };
  }

  #printWrites(): void {
    if (this.#unprinted === undefined) return;
    const { who, token, count } = this.#unprinted;
    this.#unprinted = undefined;
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
