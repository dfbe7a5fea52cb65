// Runs the model of a store in a small world, for the conformance suite and for histories. Turns
// come from the real event loop. In the suite, messages take no time and virtual time passes only
// in sleep(). For histories, virtual time passes by itself.

import type { Store } from "../../../src/stores/contract.ts";
import type { StoreHarness } from "../../../src/testing/index.ts";
import type { Engine } from "../../models/model.ts";
import { Chance } from "../../world/chance.ts";
import { HostClocks } from "../../world/host-clocks.ts";
import { FINE, Network, type Weather } from "../../world/network.ts";
import { Program } from "../../world/program.ts";
import { Schedule } from "../../world/schedule.ts";
import { Trace } from "../../world/trace.ts";

export interface ModelBench {
  open(): Promise<Store>;
  /** True time. */
  now(): number;
  /** Lets this much virtual time pass and runs the events that are due. */
  pass(ms: number): Promise<void>;
  /** Lets virtual time pass until stop(). */
  run(): Promise<void>;
  stop(): void;
  restart(): Promise<void>;
}

export function modelBench(
  engine: Engine,
  { chance, weather }: { readonly chance: Chance; readonly weather: Weather },
): ModelBench {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const network = new Network({ schedule, trace, chance: chance.stream("network"), weather });
  const machine = (name: string): Program => {
    const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name });
    return new Program({ name, schedule, clocks, chance: chance.stream(name) });
  };
  const model = engine({ schedule, network, trace, machine });
  const pump = new Pump(schedule);
  let clients = 0;
  const open = async (): Promise<Store> => {
    clients += 1;
    const program = machine(`client ${clients}`);
    const { clock, clocks } = program;
    const parts = {
      clock,
      hostClock: clocks.hostClock,
      random: program.chance,
      warn: () => undefined,
    };
    for (;;) {
      const opened = await model
        .open(program)(parts)
        .catch(() => undefined);
      if (opened !== undefined) return opened;
    }
  };
  const restart = async (): Promise<void> => {
    for (const server of model.servers) {
      server.isDown = true;
      await pump.pass(100);
      server.isDown = false;
      server.onReturn?.();
    }
  };
  const pass = (ms: number): Promise<void> => pump.pass(ms);
  const run = (): Promise<void> => pump.pass(Number.POSITIVE_INFINITY);
  return { open, now: () => schedule.now, pass, run, stop: () => pump.stop(), restart };
}

export function modelHarness(engine: Engine): StoreHarness {
  const bench = modelBench(engine, { chance: new Chance("conformance"), weather: FINE });
  const { open, now, pass, stop, restart } = bench;
  return { open, now, restart, sleep: pass, close: async () => stop() };
}

/** Runs events up to a limit of virtual time, one per turn of the event loop. */
class Pump {
  readonly #schedule: Schedule;
  #limit = 0;
  #isOver = false;
  #whenIdle: (() => void)[] = [];

  constructor(schedule: Schedule) {
    this.#schedule = schedule;
    this.#turn();
  }

  pass(ms: number): Promise<void> {
    this.#limit = Math.max(this.#limit, this.#schedule.now) + ms;
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }

  stop(): void {
    this.#isOver = true;
    this.#idle();
  }

  #turn(): void {
    if (this.#isOver) return;
    const { nextAt } = this.#schedule;
    if (nextAt !== undefined && nextAt <= this.#limit) {
      this.#schedule.step();
    } else if (this.#limit < Number.POSITIVE_INFINITY && this.#whenIdle.length > 0) {
      this.#schedule.now = this.#limit;
      this.#idle();
    }
    setImmediate(() => this.#turn());
  }

  #idle(): void {
    for (const idle of this.#whenIdle.splice(0)) idle();
  }
}
