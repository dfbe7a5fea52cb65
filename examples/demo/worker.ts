// One worker process of the demo: waits for the lease, appends to the ledger while it holds it, hands over on SIGTERM.
// On the order to stall it shows the classic accident: check() says yes, the process is stopped, and the write happens
// after somebody else has taken over. Started by team.ts with its name and the shared folder.

import { rmSync } from "node:fs";
import type { Clock } from "../../src/async/clock.ts";
import { pause } from "../../src/async/waits.ts";
import { quietExperiments } from "../../src/cli/quiet.ts";
import { connect } from "../../src/connect.ts";
import { isTenureError } from "../../src/core/errors.ts";
import type { Lease } from "../../src/holder/lease.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import type { Tenure } from "../../src/tenure.ts";
import { Ledger } from "./ledger.ts";
import { type Order, RESOURCE, type Report, storeFile, TIMING, WITHOUT_GUARD } from "./messages.ts";

const WRITE_EVERY_MS = 200;
/** A gap this long between two looks at the clock is a stop, not a busy machine. */
const STOPPED_MS = 1_000;
/** Without a stop for this long the stall is over. */
const STALL_LIMIT_MS = 10_000;
const SUCCESSOR_WAIT_MS = 5_000;

function report(message: Report): void {
  if (process.connected) process.send?.(message);
}

class Worker {
  readonly #name: string;
  readonly #tenure: Tenure;
  readonly #ledger: Ledger;
  readonly #clock: Clock;
  readonly #ending = new AbortController();
  #handsOver = false;
  #stallNote: string | undefined;

  constructor(name: string, parts: { tenure: Tenure; ledger: Ledger; clock: Clock }) {
    this.#name = name;
    this.#tenure = parts.tenure;
    this.#ledger = parts.ledger;
    this.#clock = parts.clock;
  }

  end(how: "handover" | "leave"): void {
    if (this.#ending.signal.aborted) return;
    this.#handsOver = how === "handover";
    this.#ending.abort();
  }

  stall(note: string): void {
    this.#stallNote = note;
  }

  async work(): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const options = { ...TIMING, waitMs: Number.POSITIVE_INFINITY, signal };
      const lease = await this.#tenure.acquire(RESOURCE, options).catch((error: unknown) => {
        if (signal.aborted) return undefined;
        throw error;
      });
      if (lease !== undefined) await this.#hold(lease);
    }
    await this.#tenure.close();
    this.#ledger.close();
  }

  async #hold(lease: Lease): Promise<void> {
    report({ type: "granted", token: String(lease.token) });
    try {
      this.#ledger.advance(lease);
      await this.#writeUntilToldOtherwise(lease);
      if (this.#handsOver) await this.#handOver(lease);
    } catch (error) {
      if (!isTenureError(error, "LEASE_LOST") && !isTenureError(error, "STALE_TOKEN")) throw error;
      report({ type: "lost", reason: error.message });
    } finally {
      this.#stallNote = undefined;
      await lease.release();
    }
  }

  async #writeUntilToldOtherwise(lease: Lease): Promise<void> {
    const { signal } = this.#ending;
    for (let count = 1; !signal.aborted; count += 1) {
      if (this.#stallNote !== undefined) {
        await lease.confirmed();
        this.#writeLate(lease, this.#stallNote);
        return;
      }
      await this.#write(lease, `entry ${count}`);
      await pause(this.#clock, WRITE_EVERY_MS, signal).catch(() => undefined);
    }
  }

  async #write(lease: Lease, note: string): Promise<void> {
    try {
      await lease.run(() => this.#ledger.append(lease, { worker: this.#name, note }));
      report({ type: "wrote", token: String(lease.token) });
    } catch (error) {
      if (!isTenureError(error, "LEASE_IN_DOUBT")) throw error;
      await lease.confirmed();
    }
  }

  /** No `await` from the check to the write: no timer and no message can come in between, only the stop. */
  #writeLate(lease: Lease, note: string): void {
    const { resource } = lease;
    const token = lease.check();
    // Read before the report, because the stop may follow that at once.
    const armedAt = this.#clock.now();
    report({ type: "armed", token: String(token) });
    outlastStop(this.#clock, armedAt);
    try {
      // The bare token, not the lease: this code has asked check() already, and relies on the answer.
      this.#ledger.append({ resource, token }, { worker: this.#name, note });
      report({ type: "accepted", token: String(token) });
    } catch (error) {
      if (!isTenureError(error, "STALE_TOKEN")) throw error;
      report({ type: "refused", token: String(token), highest: String(error.highest) });
    }
    report({ type: "checked", ...askAgain(lease) });
  }

  async #handOver(lease: Lease): Promise<void> {
    const { release, successor } = await lease.handover({ waitMs: SUCCESSOR_WAIT_MS });
    report({ type: "left", release, successor: successor?.holderId });
  }
}

/** Keeps the process busy, as a long computation would, until it has been stopped and resumed. */
function outlastStop(clock: Clock, armedAt: number): void {
  let last = armedAt;
  for (;;) {
    const now = clock.now();
    if (now - last > STOPPED_MS) return;
    if (now - armedAt > STALL_LIMIT_MS) throw new Error("nobody stopped this process");
    last = now;
  }
}

function askAgain(lease: Lease): { code: string | undefined; reason: string } {
  try {
    lease.check();
    return { code: undefined, reason: "it still holds the lease" };
  } catch (error) {
    if (!isTenureError(error)) throw error;
    return { code: error.code, reason: error.message };
  }
}

/** The director died without a word: end the one worker that cannot notice, remove the files, and go. */
function abandon(folder: string, stoppedPid: number | undefined): never {
  try {
    if (stoppedPid !== undefined) process.kill(stoppedPid, "SIGKILL");
  } catch {
    // It is gone already.
  }
  rmSync(folder, { recursive: true, force: true });
  process.exit(1);
}

async function main(name: string, folder: string): Promise<void> {
  quietExperiments();
  let stoppedPid: number | undefined;
  process.on("disconnect", () => abandon(folder, stoppedPid));
  // A terminal sends Ctrl-C to all processes; the director decides what it means.
  process.on("SIGINT", () => undefined);
  const { clock } = systemParts();
  const ledger = await Ledger.open(folder, process.env[WITHOUT_GUARD] !== "1");
  const tenure = await connect(sqliteStore({ file: storeFile(folder) }), { holderId: name });
  const worker = new Worker(name, { tenure, ledger, clock });
  process.on("SIGTERM", () => worker.end("handover"));
  process.on("message", (order: Order) => {
    if (order.type === "stall") worker.stall(order.note);
    else if (order.type === "stopped") stoppedPid = order.pid;
    else worker.end("leave");
  });
  report({ type: "ready", pid: process.pid });
  await worker.work();
  process.exit(0);
}

const [name = "", folder = ""] = process.argv.slice(2);
main(name, folder).catch((error: unknown) => {
  const reason = error instanceof Error ? error.message : String(error);
  const last: Report = { type: "failed", reason };
  if (!process.connected || process.send === undefined) process.exit(1);
  process.send(last, undefined, undefined, () => process.exit(1));
});
