// Runs one program under test: the real Tenure library and its workloads, over crashes and
// restarts. The machine and its clocks persist. Each start creates a new simulated process
// (world/program.ts) with a new Tenure and empty memory.

import { isTenureError } from "../src/core/errors.ts";
import type { Lease } from "../src/holder/lease.ts";
import type { AcquireOptions } from "../src/holder/options.ts";
import type { Store } from "../src/stores/contract.ts";
import { createTenure, type Tenure } from "../src/tenure.ts";
import { type Plan, renewEveryMs } from "./faults/plan.ts";
import type { StoreModel } from "./models/model.ts";
import { watchedStore } from "./models/watched-store.ts";
import type { Resources, Write } from "./resources.ts";
import type { Workload } from "./workloads/workload.ts";
import type { Chance } from "./world/chance.ts";
import type { HostClocks } from "./world/host-clocks.ts";
import { Program } from "./world/program.ts";
import type { Schedule } from "./world/schedule.ts";
import type { Trace, TraceEventData } from "./world/trace.ts";

export interface ProgramRunnerParts {
  readonly name: string;
  readonly plan: Plan;
  readonly schedule: Schedule;
  readonly clocks: HostClocks;
  readonly chance: Chance;
  readonly trace: Trace;
  readonly model: StoreModel;
  readonly resources: Resources;
  readonly workloads: readonly Workload[];
}

/** Interrupts a program before a write. Returns false to wait for a later write. */
type Interruption = (program: Program, write: Write) => boolean;

const DRAIN_MS = 1_000;
const WAKE_CHECK_MS = 50;
const REOPEN_MS = 300;

export class ProgramRunner {
  readonly name: string;
  readonly #parts: ProgramRunnerParts;
  #starts = 0;
  #program: Program | undefined;
  #tenure: Tenure | undefined;
  #stopping = new AbortController();
  #interruption: Interruption | undefined;
  /** The run is ending: start() does nothing. */
  #isShutDown = false;

  constructor(parts: ProgramRunnerParts) {
    this.#parts = parts;
    this.name = parts.name;
  }

  get program(): Program | undefined {
    return this.#program?.isDead === false ? this.#program : undefined;
  }

  start(): void {
    const { name, schedule, clocks, chance, trace } = this.#parts;
    if (this.#isShutDown) return;
    // No program starts on a suspended machine.
    if (clocks.isStopped) {
      schedule.after(WAKE_CHECK_MS, () => this.start());
      return;
    }
    this.#starts += 1;
    const own = chance.stream(`start ${this.#starts}`);
    const program = new Program({ name, schedule, clocks, chance: own });
    this.#program = program;
    // The previous Tenure ended with its process. The new one exists once the store is open.
    this.#tenure = undefined;
    this.#interruption = undefined;
    this.#stopping = new AbortController();
    trace.note(name, { kind: "started" });
    void this.#run(program, own, this.#stopping.signal);
  }

  crash(restartAfterMs: number): void {
    if (this.program === undefined) return;
    this.program.kill();
    this.#note({ kind: "crashed" });
    this.#parts.schedule.after(restartAfterMs, () => this.start());
  }

  /** A planned restart: drains and releases all leases, then starts a new process. */
  async restart(afterMs: number): Promise<void> {
    if (await this.#close()) this.#parts.schedule.after(afterMs, () => this.start());
  }

  /** Closes the program for good. */
  async close(): Promise<void> {
    this.#isShutDown = true;
    await this.#close();
  }

  /** Revokes the lease on the resource, whichever program holds it, as an operator would. */
  async revoke(resource: string): Promise<void> {
    await this.#tenure?.revoke(resource).catch(() => undefined);
  }

  /** Interrupts the program between check() and the next write that the interruption accepts. */
  beforeWrite(interruption: Interruption): void {
    this.#interruption = interruption;
  }

  async #run(program: Program, chance: Chance, stopping: AbortSignal): Promise<void> {
    const { plan, trace, name, resources, workloads } = this.#parts;
    const { clock } = program;
    const opened = await this.#open(program, chance, stopping);
    if (opened === undefined) return;
    const tenure = createTenure({
      store: watchedStore(opened, program, trace),
      clock,
      random: chance,
      holderId: `${name}.${this.#starts}`,
      keepAlive: false,
      defaults: toTiming(plan),
      warn: (message) => this.#note({ kind: "failed", what: message, code: "WARNING" }),
    });
    this.#tenure = tenure;
    for (const [index, workload] of workloads.entries()) {
      const own = chance.stream(`workload ${index}`);
      const advance = (lease: Lease): Promise<void> => resources.advance(program, lease);
      const context = {
        tenure,
        program,
        plan,
        stopping,
        chance: own,
        guard: { advance },
        act: (lease: Lease, how: { guarded: boolean; inDoubt: boolean }) =>
          this.#act(program, lease, how),
        note: (data: TraceEventData) => this.#note(data),
      };
      workload(context).catch((error: unknown) => {
        // An unexpected error may have no code, so we record its text.
        if (!stopping.aborted)
          this.#note({ kind: "failed", what: "workload", code: String(error) });
      });
    }
  }

  /** Retries until the store is open. Returns undefined if the program has to stop before that. */
  async #open(program: Program, random: Chance, stopping: AbortSignal): Promise<Store | undefined> {
    const { clock, clocks } = program;
    while (!stopping.aborted) {
      const open = this.#parts.model.open(program);
      try {
        return await open({ clock, hostClock: clocks.hostClock, random, warn: () => undefined });
      } catch (error) {
        this.#noteFailure("opening", error);
        await program.sleep(REOPEN_MS);
      }
    }
    return undefined;
  }

  /**
   * Checks the lease, then writes. Every workload acts through this; faults may come in between.
   */
  #act(program: Program, lease: Lease, how: { guarded: boolean; inDoubt: boolean }): boolean {
    try {
      lease.check();
    } catch (error) {
      this.#noteFailure("check", error);
      return false;
    }
    const { resource, token, safeUntil } = lease;
    const { clocks } = program;
    this.#note({
      kind: "acted",
      resource,
      token,
      safeUntil,
      now: clocks.now(),
      safeUntilTrue: clocks.trueInstant(safeUntil),
      actsInDoubt: how.inDoubt,
    });
    const write = { resource, token, guarded: how.guarded };
    if (this.#interruption?.(program, write)) this.#interruption = undefined;
    this.#parts.resources.send(program, write, program.isStopped ? "after a stop" : "at once");
    return true;
  }

  /** Returns false if the program was down or already closing. */
  async #close(): Promise<boolean> {
    const { program } = this;
    const tenure = this.#tenure;
    if (program === undefined || this.#stopping.signal.aborted) return false;
    this.#stopping.abort("stopping");
    await tenure?.close({ drainMs: DRAIN_MS });
    if (program.isDead) return false;
    program.kill();
    this.#note({ kind: "closed" });
    return true;
  }

  #noteFailure(what: string, error: unknown): void {
    const code = isTenureError(error) ? error.code : String(error);
    this.#note({ kind: "failed", what, code });
  }

  #note(data: TraceEventData): void {
    this.#parts.trace.note(this.name, data);
  }
}

function toTiming(plan: Plan): AcquireOptions {
  const { ttlMs, clockErrorMs, roundTripMs } = plan;
  return { ttlMs, clockErrorMs, roundTripMs, renewEveryMs: renewEveryMs(plan) };
}
