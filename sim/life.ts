// One program of the world with the real Tenure in it, over its restarts. The machine and its clocks stay; each start is a
// new process with a new Tenure and nothing in its memory.

import { isTenureError } from "../src/core/errors.ts";
import type { Lease } from "../src/holder/lease.ts";
import type { AcquireOptions } from "../src/holder/options.ts";
import type { Store } from "../src/stores/contract.ts";
import { createTenure, type Tenure } from "../src/tenure.ts";
import { type Plan, renewEveryMs } from "./faults/plan.ts";
import type { StoreModel } from "./models/model.ts";
import { watchedStore } from "./models/watched-store.ts";
import type { Resources, Write } from "./resource.ts";
import type { Workload } from "./workloads/workload.ts";
import type { Chance } from "./world/chance.ts";
import type { HostClocks } from "./world/host-clocks.ts";
import { Program } from "./world/program.ts";
import type { Schedule } from "./world/schedule.ts";
import type { Happening, Trace } from "./world/trace.ts";

export interface LifeParts {
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

/** False: not at this write, but at a later one. */
type Stall = (program: Program, write: Write) => boolean;

const DRAIN_MS = 1_000;
const LOOK_AGAIN_MS = 50;
const OPEN_AGAIN_MS = 300;

export class Life {
  readonly name: string;
  readonly #parts: LifeParts;
  #starts = 0;
  #program: Program | undefined;
  #tenure: Tenure | undefined;
  #stopping = new AbortController();
  #stall: Stall | undefined;
  /** Nothing is started any more. */
  #isEvening = false;

  constructor(parts: LifeParts) {
    this.#parts = parts;
    this.name = parts.name;
  }

  get program(): Program | undefined {
    return this.#program?.isDead === false ? this.#program : undefined;
  }

  start(): void {
    const { name, schedule, clocks, chance, trace } = this.#parts;
    if (this.#isEvening) return;
    // Nothing starts on a machine that is asleep.
    if (clocks.isStopped) {
      schedule.after(LOOK_AGAIN_MS, () => this.start());
      return;
    }
    this.#starts += 1;
    const own = chance.stream(`start ${this.#starts}`);
    const program = new Program({ name, schedule, clocks, chance: own });
    this.#program = program;
    // Until the store is open there is none; the one of the life before died with it.
    this.#tenure = undefined;
    this.#stall = undefined;
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

  /** A planned restart: everything is drained and given back, then a new process begins. */
  async restart(afterMs: number): Promise<void> {
    if (await this.#close()) this.#parts.schedule.after(afterMs, () => this.start());
  }

  /** The end of the day. */
  async close(): Promise<void> {
    this.#isEvening = true;
    await this.#close();
  }

  /** Ends whoever's lease it is, as an operator would. */
  async revoke(resource: string): Promise<void> {
    await this.#tenure?.revoke(resource).catch(() => undefined);
  }

  /** Between a check and the write behind it, at the next that it wants, this happens to the program. */
  beforeWrite(stall: Stall): void {
    this.#stall = stall;
  }

  async #run(program: Program, chance: Chance, stopping: AbortSignal): Promise<void> {
    const { plan, trace, name, resources, workloads } = this.#parts;
    const { clock } = program;
    const opened = await this.#open(program, chance, stopping);
    if (opened === undefined) return;
    const tenure = createTenure({
      store: watchedStore(opened, program, trace),
      ...{ clock, random: chance, holderId: `${name}.${this.#starts}`, keepAlive: false },
      defaults: timingOf(plan),
      warn: (message) => this.#note({ kind: "failed", what: message, code: "WARNING" }),
    });
    this.#tenure = tenure;
    for (const [index, workload] of workloads.entries()) {
      const own = chance.stream(`workload ${index}`);
      const advance = (lease: Lease): Promise<void> => resources.advance(program, lease);
      const day = {
        ...{ tenure, program, plan, stopping, chance: own, guard: { advance } },
        act: (lease: Lease, how: { guarded: boolean; inDoubt: boolean }) =>
          this.#act(program, lease, how),
        note: (happening: Happening) => this.#note(happening),
      };
      workload(day).catch((error: unknown) => {
        // Nobody foresaw it, so its code alone would not say enough.
        if (!stopping.aborted)
          this.#note({ kind: "failed", what: "workload", code: String(error) });
      });
    }
  }

  /** Until the store can be reached; undefined when the program is to stop before. */
  async #open(program: Program, random: Chance, stopping: AbortSignal): Promise<Store | undefined> {
    const { clock, clocks } = program;
    while (!stopping.aborted) {
      const open = this.#parts.model.open(program);
      try {
        return await open({ clock, hostClock: clocks.hostClock, random });
      } catch (error) {
        this.#failed("opening", error);
        await program.sleep(OPEN_AGAIN_MS);
      }
    }
    return undefined;
  }

  /** The heart of every workload: check, then write, with whatever comes between the two. */
  #act(program: Program, lease: Lease, how: { guarded: boolean; inDoubt: boolean }): boolean {
    try {
      lease.check();
    } catch (error) {
      this.#failed("check", error);
      return false;
    }
    const { resource, token, safeUntil } = lease;
    const { clocks } = program;
    this.#note({
      ...{ kind: "acted", resource, token, safeUntil, now: clocks.now() },
      ...{ safeUntilTrue: clocks.trueInstant(safeUntil), actsInDoubt: how.inDoubt },
    });
    const write = { resource, token, guarded: how.guarded };
    if (this.#stall?.(program, write)) this.#stall = undefined;
    this.#parts.resources.send(program, write, program.isStopped ? "after a stop" : "at once");
    return true;
  }

  /** False when there was nothing to close. */
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

  #failed(what: string, error: unknown): void {
    const code = isTenureError(error) ? error.code : String(error);
    this.#note({ kind: "failed", what, code });
  }

  #note(happening: Happening): void {
    this.#parts.trace.note(this.name, happening);
  }
}

function timingOf(plan: Plan): AcquireOptions {
  const { ttlMs, clockErrorMs, roundTripMs } = plan;
  return { ttlMs, clockErrorMs, roundTripMs, renewEveryMs: renewEveryMs(plan) };
}
