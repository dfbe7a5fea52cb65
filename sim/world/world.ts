// Runs one plan: a store, the protected resources, and programs with the real Tenure library, each
// on a simulated machine of its own. A run has three phases: faults; calm, in which every program
// must make progress again; and shutdown, in which all programs close.

import { Nemesis, type NemesisParts } from "../faults/nemesis.ts";
import { FAULTY_TTLS_MAX, GRANTS_MIN, type Plan } from "../faults/plan.ts";
import type { Engine, Site, StoreModel } from "../models/model.ts";
import { outage } from "../models/outage.ts";
import { ProgramRunner } from "../program-runner.ts";
import { Resources } from "../resources.ts";
import { LEADER, leader } from "../workloads/leader.ts";
import { lock } from "../workloads/lock.ts";
import { many } from "../workloads/many.ts";
import { hasScheduledJobs, once } from "../workloads/once.ts";
import type { Workload } from "../workloads/workload.ts";
import { Chance } from "./chance.ts";
import { HostClocks } from "./host-clocks.ts";
import { Network } from "./network.ts";
import { Program } from "./program.ts";
import { Schedule } from "./schedule.ts";
import { Trace } from "./trace.ts";

/**
 * Resources that some program wants at all times. Each must have a holder again soon after the
 * faults end.
 */
export const CONTENDED: readonly string[] = ["lock/0", "lock/1", LEADER];

/** What a run needs from the real process. */
export interface Host {
  /** Calls `step` once per turn of the event loop until it returns false. */
  eachTurn(step: () => boolean): Promise<void>;
  /** Blocks real clocks, randomness and I/O. Returns the function that unblocks them. */
  isolate(): () => void;
}

export interface RunResult {
  readonly trace: Trace;
  readonly steps: number;
  readonly virtualMs: number;
  /** When the calm phase began; undefined if the run did not reach it. */
  readonly calmAt: number | undefined;
  /** When the shutdown phase began; undefined if the run did not reach it. */
  readonly shutdownAt: number | undefined;
  /** Programs that did not close in the shutdown phase. */
  readonly unfinished: readonly string[];
  /** The run was ended because it exceeded `STEPS_MAX`. */
  readonly ranAway: boolean;
  /** The uncaught error that ended the run, with the first lines of its stack. */
  readonly crash?: string | undefined;
}

export interface RunWorldOptions {
  /** Capture stack traces. This doubles the time of a run, so it is used only to repeat a crash. */
  readonly withStacks?: boolean;
}

/** A run has some thousand events. The limit ends a loop that never waits. */
const STEPS_MAX = 400_000;
const CHECK_EVERY_MS = 200;
/**
 * How much longer than planned the calm phase may last, until there were enough grants and an
 * outdated token.
 */
const EXTRA_CALM_MAX_MS = 20_000;
const STACK_LINES = 4;

export async function runWorld(
  plan: Plan,
  engine: Engine,
  host: Host,
  { withStacks = false }: RunWorldOptions = {},
): Promise<RunResult> {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const chance = new Chance(`${plan.seed}`);
  const { weather } = plan;
  const network = new Network({ schedule, trace, weather, chance: chance.stream("network") });
  const machine = (name: string, rate: number): Program => {
    const own = chance.stream(name);
    const clocks = new HostClocks(schedule, { rate, offsetMs: own.between(1e3, 1e6), name });
    return new Program({ name, schedule, clocks, chance: own });
  };
  const endIsolation = host.isolate();
  const { stackTraceLimit } = Error;
  if (withStacks) Error.stackTraceLimit = 2 * STACK_LINES;
  let openModel: StoreModel | undefined;
  try {
    const storeRate = plan.rates[0] ?? 1;
    const own = (name: string): Program => machine(name, storeRate);
    const site: Site = {
      schedule,
      network,
      trace,
      machine: own,
      ...(plan.isBeyondBounds && { outage: (callee, server) => outage(trace, callee, server) }),
    };
    const model = engine(site);
    openModel = model;
    const resources = new Resources(machine("resource", 1), network, trace);
    const runners = Array.from({ length: plan.programs }, (_, index) => {
      const name = `p${index + 1}`;
      const rate = plan.rates[index + 1] ?? 1;
      const own = chance.stream(name);
      const offsetMs = own.between(1e3, 1e6);
      const clocks = model.host ?? new HostClocks(schedule, { rate, offsetMs, name });
      const parts = { name, plan, schedule, clocks, chance: own, trace, model, resources };
      const runner = new ProgramRunner({ ...parts, workloads: chooseWorkloads(index, plan) });
      return { runner, clocks, rate };
    });
    const parts = {
      plan,
      schedule,
      network,
      trace,
      model,
      resources,
      runners,
      contended: CONTENDED,
      shared: findShared(plan),
      chance: chance.stream("nemesis"),
    };
    const phases = new Phases(parts, new Nemesis(parts));
    phases.schedule();
    const crash = await host.eachTurn(() => phases.step()).then(() => undefined, describeCrash);
    const { steps, now: virtualMs } = schedule;
    return { trace, steps, virtualMs, ...phases.outcome(), crash };
  } finally {
    openModel?.close?.();
    Error.stackTraceLimit = stackTraceLimit;
    endIsolation();
  }
}

function describeCrash(error: unknown): string {
  const { stack } = error instanceof Error ? error : { stack: undefined };
  const lines = (stack ?? String(error)).split("\n").slice(0, STACK_LINES);
  return lines.map((line) => line.trim()).join(" ");
}

/** Programs share two locks and a leadership. Each also has a session with many small leases. */
function chooseWorkloads(index: number, plan: Plan): Workload[] {
  const loops: Workload[] = [lock(`lock/${index % 2}`), many, leader];
  if (hasScheduledJobs(plan)) loops.push(once);
  return index === 2 ? [...loops, lock("lock/0"), lock("lock/1")] : loops;
}

/** The contended resources that more than one program wants: two programs have a lock each. */
function findShared({ programs }: Plan): readonly string[] {
  return programs > 2 ? CONTENDED : [LEADER];
}

/** Starts the programs and moves the run from phase to phase. */
class Phases {
  readonly #plan: Plan;
  readonly #schedule: Schedule;
  readonly #trace: Trace;
  readonly #nemesis: Nemesis;
  readonly #runners: readonly { readonly runner: ProgramRunner }[];
  readonly #resources: Resources;
  #calmAt: number | undefined;
  #shutdownAt: number | undefined;
  #endAt = Number.POSITIVE_INFINITY;
  readonly #unfinished: Set<string>;

  constructor({ plan, schedule, trace, resources, runners }: NemesisParts, nemesis: Nemesis) {
    this.#plan = plan;
    this.#schedule = schedule;
    this.#trace = trace;
    this.#nemesis = nemesis;
    this.#runners = runners;
    this.#resources = resources;
    this.#unfinished = new Set(runners.map(({ runner }) => runner.name));
  }

  schedule(): void {
    for (const [index, { runner }] of this.#runners.entries())
      this.#schedule.at(index * 7, () => runner.start());
    this.#nemesis.schedule();
    this.#schedule.at(this.#plan.faultyMs, () => this.#beginCalmIfEnough());
  }

  step(): boolean {
    if (this.#schedule.now > this.#endAt || this.#unfinished.size === 0) return false;
    return this.#schedule.steps < STEPS_MAX && this.#schedule.step();
  }

  outcome(): Pick<RunResult, "unfinished" | "ranAway" | "calmAt" | "shutdownAt"> {
    return {
      calmAt: this.#calmAt,
      shutdownAt: this.#shutdownAt,
      unfinished: [...this.#unfinished],
      ranAway: this.#schedule.steps >= STEPS_MAX,
    };
  }

  /** A run with few faults proves little, so the faults continue until there were enough. */
  #beginCalmIfEnough(): void {
    const { faultsMin, ttlMs, calmMs } = this.#plan;
    const { now } = this.#schedule;
    if (this.#trace.faultCount < faultsMin && now < FAULTY_TTLS_MAX * ttlMs) {
      this.#schedule.after(Math.round(ttlMs / 4), () => this.#beginCalmIfEnough());
      return;
    }
    this.#calmAt = now;
    this.#endAt = now + calmMs + EXTRA_CALM_MAX_MS + 4 * ttlMs + 10_000;
    this.#nemesis.calm();
    this.#trace.note("world", { kind: "calm" });
    const before = this.#trace.events.length;
    const leastMs = hasScheduledJobs(this.#plan) ? calmMs : CHECK_EVERY_MS;
    this.#schedule.after(leastMs, () => this.#shutDownIfDone(before));
  }

  /**
   * Ends the calm phase once a program has acted on every contended resource and the run proves
   * enough.
   */
  #shutDownIfDone(calmFrom: number): void {
    const { events } = this.#trace;
    const waiting = new Set(CONTENDED);
    for (const event of events.slice(calmFrom))
      if (event.kind === "acted") waiting.delete(event.resource);
    const grants = events.filter(({ kind }) => kind === "storeGranted").length;
    const leftMs = (this.#calmAt ?? 0) + this.#plan.calmMs - this.#schedule.now;
    const provesEnough = this.#resources.canReplayStale && grants >= GRANTS_MIN;
    const isDone = waiting.size === 0 && provesEnough;
    if (isDone || leftMs <= -EXTRA_CALM_MAX_MS) this.#shutDown();
    else this.#schedule.after(CHECK_EVERY_MS, () => this.#shutDownIfDone(calmFrom));
  }

  #shutDown(): void {
    this.#shutdownAt = this.#schedule.now;
    // Every run must try a write with an outdated token, or it proves nothing about guards.
    if (this.#resources.replay()) this.#trace.fault("resource", "replay", "an old write");
    this.#trace.note("world", { kind: "evening" });
    for (const { runner } of this.#runners)
      void runner.close().then(() => this.#unfinished.delete(runner.name));
  }
}
