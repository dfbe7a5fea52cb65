// `tenure doctor`: measures, then says what to choose and what would break.

import { signalNumber } from "../../runtime/process-end.ts";
import { systemParts } from "../../runtime/system.ts";
import type { Guarantees } from "../../stores/contract.ts";
import { openStore } from "../backends/open-store.ts";
import type { Command } from "../command.ts";
import { type Advice, advise, type Percentiles, percentiles, shown } from "../doctor/advice.ts";
import { type HostTaken, readHost, takenBetween } from "../doctor/host.ts";
import { type Measured, measure } from "../doctor/measure.ts";
import { UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import type { Line, Output } from "../output/output.ts";
import { foldAfter, table } from "../output/text.ts";
import { planTimingOptions } from "../parsing/timing-options.ts";
import { SignalRelay } from "../signal-relay.ts";

const FOR_MS = 5_000;
const FOR_MAX_MS = 600_000;
const JUDGED_TTL_MS = 10_000;
const BAR_WIDTH = 40;

export const doctorCommand: Command = async ({ options }, output) => {
  const forMs = options.duration("for") ?? FOR_MS;
  if (forMs < 100 || forMs > FOR_MAX_MS) throw new UsageError("--for is from 100ms to 10m.");
  const ttlMs = options.duration("ttl") ?? JUDGED_TTL_MS;
  // A ttl that no lease could have is no question for a doctor.
  planTimingOptions({ ttlMs, clockErrorMs: 0, roundTripMs: 0 });
  const relay = new SignalRelay();
  const { store, tenure } = await openStore(options);
  const { clock, random } = systemParts();
  const bar = new Bar(process.stderr);
  try {
    const before = readHost();
    const { holderId } = tenure;
    const onProgress = (share: number): void => bar.draw(share);
    const signal = relay.ended;
    const measured = await measure({ store, clock, random, holderId, forMs, onProgress, signal });
    const host = takenBetween(before, readHost());
    const { guarantees } = store;
    const suspendSafe = process.platform === "linux" || process.platform === "darwin";
    const advice = advise({ measured, host, guarantees, suspendSafe, ttlMs, forMs });
    bar.clear();
    tell(output, { measured, host, guarantees, suspendSafe, advice });
    return advice.breaks.length === 0 ? EXIT.ok : EXIT.no;
  } catch (error) {
    if (relay.endedBy === undefined) throw error;
    return EXIT.signal + (signalNumber(relay.endedBy) ?? 0);
  } finally {
    bar.clear();
    await tenure.close();
  }
};

interface Findings {
  readonly measured: Measured;
  readonly host: HostTaken;
  readonly guarantees: Guarantees;
  readonly suspendSafe: boolean;
  readonly advice: Advice;
}

function tell(output: Output, findings: Findings): void {
  const { measured, host, guarantees, suspendSafe, advice } = findings;
  const seen = {
    renewMs: percentiles(measured.renewMs),
    grantAndReleaseMs: percentiles(measured.grantMs),
    timerLateMs: percentiles(measured.lateMs),
  };
  output.answer(
    () => describe(findings, seen, output.width),
    () => ({ ...seen, failures: measured.failures, host, guarantees, suspendSafe, ...advice }),
  );
}

function describe(
  { host, guarantees, suspendSafe, advice }: Findings,
  seen: Readonly<Record<"renewMs" | "grantAndReleaseMs" | "timerLateMs", Percentiles>>,
  width: number,
): Line[] {
  const bold = (text: string): Line => ({ style: "bold", text });
  const row = (name: string, { count, p50, p90, p99, p999, max }: Percentiles): string[] => [
    `  ${name}`,
    ...[p50, p90, p99, p999, max].map(shown),
    String(count),
  ];
  const head = ["", "p50", "p90", "p99", "p99.9", "max", "samples"];
  const rows = [
    row("renewal", seen.renewMs),
    row("grant and release", seen.grantAndReleaseMs),
    row("timers late by", seen.timerLateMs),
  ];
  const { throttledMs, stolenShare } = host;
  const bullets = (lines: readonly string[]): string[] =>
    lines.flatMap((line) => foldAfter("  - ", line, width));
  return [
    bold("Measured"),
    ...table(head, rows),
    ...foldAfter(
      "  ",
      `throttled ${throttledMs === undefined ? "unknown" : shown(throttledMs)}, stolen ${stolenShare === undefined ? "unknown" : `${(stolenShare * 100).toFixed(1)} %`}, suspend is ${suspendSafe ? "noticed" : "not noticed"}`,
      width,
    ),
    "",
    bold("The store"),
    ...foldAfter(
      "  ",
      `${guarantees.store}: ${guarantees.durable ? "grants survive a crash" : "grants may be lost in a crash"}, waiters ${guarantees.fifo ? "in order" : "in no order"}, woken by ${guarantees.wakeUp}`,
      width,
    ),
    ...foldAfter(
      "  ",
      `expiry by ${guarantees.expiryClock}; tokens from ${guarantees.tokenSource}`,
      width,
    ),
    "",
    bold("Recommended"),
    ...bullets(advice.reasons),
    "",
    ...(advice.breaks.length === 0
      ? [{ style: "green", text: "Nothing was found that would break a lease." } as const]
      : [{ style: "red", text: "Would break" } as const, ...bullets(advice.breaks)]),
    ...(advice.warnings.length === 0 ? [] : ["", bold("Worth knowing")]),
    ...bullets(advice.warnings),
  ];
}

/** Only where somebody watches. */
class Bar {
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
