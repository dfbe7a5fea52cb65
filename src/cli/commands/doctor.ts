// `tenure doctor` measures the store and the host, and prints recommended durations and problems.
// It exits with 1 if leases of the given ttl would be lost or held twice.

import { systemParts } from "../../runtime/system.ts";
import type { Guarantees } from "../../stores/contract.ts";
import { openStore } from "../backends/open-store.ts";
import { type Advice, advise, formatMs, type Percentiles, percentiles } from "../doctor/advice.ts";
import { computeLosses, type HostLosses, readHost } from "../doctor/host.ts";
import { measure } from "../doctor/measure.ts";
import { UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import type { Line } from "../output/output.ts";
import { foldAfter, table } from "../output/text.ts";
import type { Command } from "../parsing/arguments.ts";
import { planTimingOptions } from "../parsing/timing-options.ts";
import { SignalRelay } from "../signal-relay.ts";

const FOR_MS = 5_000;
const FOR_MAX_MS = 600_000;
/** Without --ttl, the problems are those of leases with the default ttl. */
const CHECKED_TTL_MS = 10_000;
const BAR_WIDTH = 40;

export const doctorCommand: Command = async ({ options }, output) => {
  const forMs = options.duration("for") ?? FOR_MS;
  if (forMs < 100 || forMs > FOR_MAX_MS) throw new UsageError("--for must be from 100ms to 10m.");
  const ttlMs = options.duration("ttl") ?? CHECKED_TTL_MS;
  // Rejects a ttl that no lease can have before measuring.
  planTimingOptions({ ttlMs, clockErrorMs: 0, roundTripMs: 0 });
  const relay = new SignalRelay();
  const { store, tenure } = await openStore(options);
  const { clock, random } = systemParts();
  const bar = new ProgressBar(process.stderr);
  try {
    const before = readHost();
    const { holderId } = tenure;
    const onProgress = (share: number): void => bar.draw(share);
    const signal = relay.ended;
    const measured = await measure({ store, clock, random, holderId, forMs, onProgress, signal });
    const host = computeLosses(before, readHost());
    const { guarantees } = store;
    const suspendSafe = process.platform === "linux" || process.platform === "darwin";
    const advice = advise({ measured, host, guarantees, suspendSafe, ttlMs, forMs });
    const seen = {
      renewMs: percentiles(measured.renewMs),
      grantAndReleaseMs: percentiles(measured.grantMs),
      timerLateMs: percentiles(measured.lateMs),
    };
    const { failures } = measured;
    bar.clear();
    output.answer(
      () => formatReport({ host, guarantees, suspendSafe, advice }, seen, output.width),
      () => ({ ...seen, failures, host, guarantees, suspendSafe, ...advice }),
    );
    return advice.breaks.length === 0 ? EXIT.ok : EXIT.no;
  } catch (error) {
    if (relay.endedBy === undefined) throw error;
    return relay.exitCode;
  } finally {
    bar.clear();
    await tenure.close();
  }
};

interface Findings {
  readonly host: HostLosses;
  readonly guarantees: Guarantees;
  readonly suspendSafe: boolean;
  readonly advice: Advice;
}

type Seen = Readonly<Record<"renewMs" | "grantAndReleaseMs" | "timerLateMs", Percentiles>>;

function formatReport(
  { host, guarantees, suspendSafe, advice }: Findings,
  seen: Seen,
  width: number,
): Line[] {
  const bold = (text: string): Line => ({ style: "bold", text });
  const row = (name: string, { count, p50, p90, p99, p999, max }: Percentiles): string[] => [
    `  ${name}`,
    ...[p50, p90, p99, p999, max].map(formatMs),
    String(count),
  ];
  const head = ["", "p50", "p90", "p99", "p99.9", "max", "samples"];
  const rows = [
    row("renewal", seen.renewMs),
    row("grant and release", seen.grantAndReleaseMs),
    row("timers late by", seen.timerLateMs),
  ];
  const { throttledMs, stolenShare } = host;
  const paragraph = (text: string): string[] => foldAfter("  ", text, width);
  const bullets = (lines: readonly string[]): string[] =>
    lines.flatMap((line) => foldAfter("  - ", line, width));
  return [
    bold("Measured"),
    ...table(head, rows),
    ...paragraph(
      `throttled ${throttledMs === undefined ? "unknown" : formatMs(throttledMs)}, stolen ${stolenShare === undefined ? "unknown" : `${(stolenShare * 100).toFixed(1)} %`}, suspend is ${suspendSafe ? "detected" : "not detected"}`,
    ),
    "",
    bold("The store"),
    ...paragraph(
      `${guarantees.store}: ${guarantees.durable ? "grants survive a crash" : "grants may be lost in a crash"}, waiters are served ${guarantees.fifo ? "in order" : "in no particular order"}, woken by ${guarantees.wakeUp}`,
    ),
    ...paragraph(`expiry by ${guarantees.expiryClock}; tokens from ${guarantees.tokenSource}`),
    "",
    bold("Recommended"),
    ...bullets(advice.reasons),
    "",
    ...(advice.breaks.length === 0
      ? [{ style: "green", text: "No problems found." } as const]
      : [{ style: "red", text: "Problems" } as const, ...bullets(advice.breaks)]),
    ...(advice.warnings.length === 0 ? [] : ["", bold("Notes")]),
    ...bullets(advice.warnings),
  ];
}

/** A progress bar, drawn only on a terminal. */
class ProgressBar {
  readonly #stream: NodeJS.WriteStream;
  #shown = -1;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  draw(share: number): void {
    const filled = Math.floor(share * BAR_WIDTH);
    if (this.#stream.isTTY !== true || filled === this.#shown) return;
    this.#shown = filled;
    this.#stream.write(`\r[${"#".repeat(filled)}${".".repeat(BAR_WIDTH - filled)}] measuring`);
  }

  clear(): void {
    if (this.#shown >= 0) this.#stream.write("\r\u001B[K");
    this.#shown = -1;
  }
}
