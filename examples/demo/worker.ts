// A worker process of the demo. It waits for the lease, appends to the ledger while it holds the
// lease, and hands over on SIGTERM. On the order to stall it reproduces the classic failure:
// check() succeeds, the process is stopped, and it writes after another worker has taken over.
// Started by team.ts with its name and the shared folder.

import { rmSync } from "node:fs";
import type { Clock } from "../../src/async/clock.ts";
import { pause } from "../../src/async/waits.ts";
import { hideExperimentalWarnings } from "../../src/cli/node-warnings.ts";
import { connect } from "../../src/connect.ts";
import { isTenureError } from "../../src/core/errors.ts";
import type { Lease } from "../../src/holder/lease.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import type { Tenure } from "../../src/tenure.ts";
import { Ledger } from "./ledger.ts";
import { type Order, RESOURCE, type Report, storeFile, TIMING, WITHOUT_GUARD } from "./messages.ts";

const WRITE_EVERY_MS = 200;
/** A gap this long between two readings of the clock is a SIGSTOP rather than a busy machine. */
const STOPPED_MS = 1_000;
/** If the process is not stopped within this time, the demo fails. */
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
      await this.#writeUntilEnding(lease);
      if (this.#handsOver) await this.#handOver(lease);
    } catch (error) {
      if (!isTenureError(error, "LEASE_LOST") && !isTenureError(error, "STALE_TOKEN")) throw error;
      report({ type: "lost", reason: error.message });
    } finally {
      this.#stallNote = undefined;
      await lease.release();
    }
  }

  async #writeUntilEnding(lease: Lease): Promise<void> {
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

  /** There is no `await` between the check and the write: only the SIGSTOP can come in between. */
  #writeLate(lease: Lease, note: string): void {
    const { resource } = lease;
    const token = lease.check();
    // Read before the report, because the SIGSTOP may follow the report immediately.
    const checkedAt = this.#clock.now();
    report({ type: "checked", token: String(token) });
    waitUntilResumed(this.#clock, checkedAt);
    try {
      // The bare token, not the lease: this code relies on its earlier call of check().
      this.#ledger.append({ resource, token }, { worker: this.#name, note });
      report({ type: "accepted", token: String(token) });
    } catch (error) {
      if (!isTenureError(error, "STALE_TOKEN")) throw error;
      report({ type: "rejected", token: String(token), highest: String(error.highest) });
    }
    report({ type: "checkedAgain", ...checkAgain(lease) });
  }

  async #handOver(lease: Lease): Promise<void> {
    const { release, successor } = await lease.handover({ waitMs: SUCCESSOR_WAIT_MS });
    report({ type: "left", release, successor: successor?.holderId });
  }
}

/** Computes in a busy loop until the process has been stopped and resumed. */
function waitUntilResumed(clock: Clock, checkedAt: number): void {
  let last = checkedAt;
  for (;;) {
    const now = clock.now();
    if (now - last > STOPPED_MS) return;
    if (now - checkedAt > STALL_LIMIT_MS) throw new Error("this process was not stopped in time");
    last = now;
  }
}

function checkAgain(lease: Lease): { code: string | undefined; reason: string } {
  try {
    lease.check();
    return { code: undefined, reason: "it still holds the lease" };
  } catch (error) {
    if (!isTenureError(error)) throw error;
    return { code: error.code, reason: error.message };
  }
}

/** Called if the main process died: kills the stopped worker, removes the files and exits. */
function exitOrphaned(folder: string, stoppedPid: number | undefined): never {
  try {
    if (stoppedPid !== undefined) process.kill(stoppedPid, "SIGKILL");
  } catch {
    // It has already exited.
  }
  rmSync(folder, { recursive: true, force: true });
  process.exit(1);
}

async function main(name: string, folder: string): Promise<void> {
  hideExperimentalWarnings();
  let stoppedPid: number | undefined;
  process.on("disconnect", () => exitOrphaned(folder, stoppedPid));
  // A terminal sends Ctrl-C to all processes. The main process handles it.
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
