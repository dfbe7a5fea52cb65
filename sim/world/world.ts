// One day of one world: a store on its machine, resources on another, programs with the real Tenure on theirs, and a plan
// of faults. First the faults, then calm in which everybody must get on again, then the evening in which all go home.

import { Nemesis, type NemesisParts } from "../faults/nemesis.ts";
import { GRANTS_MIN, LONGEST_DAY_TTLS, type Plan } from "../faults/plan.ts";
import { Life } from "../life.ts";
import type { Engine, Site, StoreModel } from "../models/model.ts";
import { outage } from "../models/outage.ts";
import { Resources } from "../resource.ts";
import { LEADER, leader } from "../workloads/leader.ts";
import { lock } from "../workloads/lock.ts";
import { many } from "../workloads/many.ts";
import { hasSchedule, once } from "../workloads/once.ts";
import type { Workload } from "../workloads/workload.ts";
import { Chance } from "./chance.ts";
import { HostClocks } from "./host-clocks.ts";
import { Network } from "./network.ts";
import { Program } from "./program.ts";
import { Schedule } from "./schedule.ts";
import { Trace } from "./trace.ts";

/** Wanted by somebody at all times, so that each must have a holder again soon after the calm. */
export const CONTENDED: readonly string[] = ["lock/0", "lock/1", LEADER];

/** How a world gets its turns of the event loop, and how the real one is shut out meanwhile. */
export interface Host {
  eachTurn(step: () => boolean): Promise<void>;
  closeWorld(): () => void;
}

export interface Ended {
  readonly trace: Trace;
  readonly steps: number;
  readonly virtualMs: number;
  /** When the faults ended; undefined when the day never came so far. */
  readonly calmAt: number | undefined;
  /** When everybody was told to close; undefined as above. */
  readonly eveningAt: number | undefined;
  /** Programs that did not come to an end in the evening. */
  readonly unfinished: readonly string[];
  /** More happened than can have had a reason. */
  readonly ranAway: boolean;
  /** What nobody caught, with the first lines of its stack. It ended the day. */
  readonly crash?: string | undefined;
}

export interface Living {
  /** Costs as much as the rest of the day: for a second look at a day that crashed. */
  readonly withStacks?: boolean;
}

/** A day has some thousand events; a loop without a wait would have no end. */
const STEPS_MAX = 400_000;
const LOOK_MS = 200;
/** Beyond the calm that liveness needs, for grants and an old token to come about. */
const LONGEST_CALM_MS = 20_000;
const STACK_LINES = 4;

export async function liveThrough(
  plan: Plan,
  engine: Engine,
  host: Host,
  { withStacks = false }: Living = {},
): Promise<Ended> {
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
  const reopen = host.closeWorld();
  const { stackTraceLimit } = Error;
  if (withStacks) Error.stackTraceLimit = 2 * STACK_LINES;
  let closing: StoreModel | undefined;
  try {
    const storeRate = plan.rates[0] ?? 1;
    const own = (name: string): Program => machine(name, storeRate);
    const site: Site = {
      ...{ schedule, network, trace, machine: own },
      ...(plan.isBeyondBounds && { outage: (callee, server) => outage(trace, callee, server) }),
    };
    const model = engine(site);
    closing = model;
    const resources = new Resources(machine("resource", 1), network, trace);
    const lives = Array.from({ length: plan.programs }, (_, index) => {
      const name = `p${index + 1}`;
      const rate = plan.rates[index + 1] ?? 1;
      const own = chance.stream(name);
      const offsetMs = own.between(1e3, 1e6);
      const clocks = model.host ?? new HostClocks(schedule, { rate, offsetMs, name });
      const parts = { name, plan, schedule, clocks, chance: own, trace, model, resources };
      return { life: new Life({ ...parts, workloads: workloadsOf(index, plan) }), clocks, rate };
    });
    const parts = {
      ...{ plan, schedule, network, trace, model, resources, lives, contended: CONTENDED },
      rivalled: rivalled(plan),
      chance: chance.stream("nemesis"),
    };
    const day = new Course(parts, new Nemesis(parts));
    day.schedule();
    const crash = await host.eachTurn(() => day.step()).then(() => undefined, firstLines);
    const { steps, now: virtualMs } = schedule;
    return { trace, steps, virtualMs, ...day.outcome(), crash };
  } finally {
    closing?.close?.();
    Error.stackTraceLimit = stackTraceLimit;
    reopen();
  }
}

function firstLines(error: unknown): string {
  const { stack } = error instanceof Error ? error : { stack: undefined };
  const lines = (stack ?? String(error)).split("\n").slice(0, STACK_LINES);
  return lines.map((line) => line.trim()).join(" ");
}

/** Every program contends for both locks and the leadership, and has a session full of small leases besides. */
function workloadsOf(index: number, plan: Plan): Workload[] {
  const loops: Workload[] = [lock(`lock/${index % 2}`), many, leader];
  if (hasSchedule(plan)) loops.push(once);
  return index === 2 ? [...loops, lock("lock/0"), lock("lock/1")] : loops;
}

/** With two programs, each has a lock of its own. */
function rivalled({ programs }: Plan): readonly string[] {
  return programs > 2 ? CONTENDED : [LEADER];
}

/** What happens when, apart from the faults. */
class Course {
  readonly #plan: Plan;
  readonly #schedule: Schedule;
  readonly #trace: Trace;
  readonly #nemesis: Nemesis;
  readonly #lives: readonly { readonly life: Life }[];
  readonly #resources: Resources;
  #calmAt: number | undefined;
  #eveningAt: number | undefined;
  #endAt = Number.POSITIVE_INFINITY;
  readonly #unfinished: Set<string>;

  constructor({ plan, schedule, trace, resources, lives }: NemesisParts, nemesis: Nemesis) {
    this.#plan = plan;
    this.#schedule = schedule;
    this.#trace = trace;
    this.#nemesis = nemesis;
    this.#lives = lives;
    this.#resources = resources;
    this.#unfinished = new Set(lives.map(({ life }) => life.name));
  }

  schedule(): void {
    for (const [index, { life }] of this.#lives.entries())
      this.#schedule.at(index * 7, () => life.start());
    this.#nemesis.schedule();
    this.#schedule.at(this.#plan.faultyMs, () => this.#calmWhenEnough());
  }

  step(): boolean {
    if (this.#schedule.now > this.#endAt || this.#unfinished.size === 0) return false;
    return this.#schedule.steps < STEPS_MAX && this.#schedule.step();
  }

  outcome(): Pick<Ended, "unfinished" | "ranAway" | "calmAt" | "eveningAt"> {
    return {
      calmAt: this.#calmAt,
      eveningAt: this.#eveningAt,
      unfinished: [...this.#unfinished],
      ranAway: this.#schedule.steps >= STEPS_MAX,
    };
  }

  /** A short day in which little went wrong proves little: it goes on until enough did. */
  #calmWhenEnough(): void {
    const { faultsMin, ttlMs, calmMs } = this.#plan;
    const { now } = this.#schedule;
    if (this.#trace.faultCount < faultsMin && now < LONGEST_DAY_TTLS * ttlMs) {
      this.#schedule.after(Math.round(ttlMs / 4), () => this.#calmWhenEnough());
      return;
    }
    this.#calmAt = now;
    this.#endAt = now + calmMs + LONGEST_CALM_MS + 4 * ttlMs + 10_000;
    this.#nemesis.calm();
    this.#trace.note("world", { kind: "calm" });
    const before = this.#trace.events.length;
    const leastMs = hasSchedule(this.#plan) ? calmMs : LOOK_MS;
    this.#schedule.after(leastMs, () => this.#eveningWhenLively(before));
  }

  /** Once everybody has got on, and there is enough to prove something by, the rest of the calm teaches nothing. */
  #eveningWhenLively(calmFrom: number): void {
    const { events } = this.#trace;
    const waiting = new Set(CONTENDED);
    for (const event of events.slice(calmFrom))
      if (event.kind === "acted") waiting.delete(event.resource);
    const grants = events.filter(({ kind }) => kind === "storeGranted").length;
    const leftMs = (this.#calmAt ?? 0) + this.#plan.calmMs - this.#schedule.now;
    const provesSomething = this.#resources.canTryGuard && grants >= GRANTS_MIN;
    const isDone = waiting.size === 0 && provesSomething;
    if (isDone || leftMs <= -LONGEST_CALM_MS) this.#evening();
    else this.#schedule.after(LOOK_MS, () => this.#eveningWhenLively(calmFrom));
  }

  #evening(): void {
    this.#eveningAt = this.#schedule.now;
    // On every day somebody must try to write with a token of the past, or nothing is learned about guards.
    if (this.#resources.replay()) this.#trace.fault("resource", "replay", "an old write");
    this.#trace.note("world", { kind: "evening" });
    for (const { life } of this.#lives)
      void life.close().then(() => this.#unfinished.delete(life.name));
  }
}
