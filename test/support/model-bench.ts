// A model of a store in a world without faults, for the conformance suite: messages take no time, and time passes only when
// the suite sleeps. The turns between come from the real event loop.
import type { Engine } from "../../src/sim/stores/model.ts";
import { Chance } from "../../src/sim/world/chance.ts";
import { HostClocks } from "../../src/sim/world/host-clocks.ts";
import { FINE, Network } from "../../src/sim/world/network.ts";
import { Program } from "../../src/sim/world/program.ts";
import { Schedule } from "../../src/sim/world/schedule.ts";
import { Trace } from "../../src/sim/world/trace.ts";
import type { StoreHarness } from "../../src/testing/index.ts";

export function modelHarness(engine: Engine): StoreHarness {
  const schedule = new Schedule();
  const trace = new Trace(() => schedule.now);
  const chance = new Chance("conformance");
  const network = new Network({ schedule, trace, chance, weather: FINE });
  const machine = (name: string): Program => {
    const clocks = new HostClocks(schedule, { rate: 1, offsetMs: 1_000, name });
    return new Program({ name, schedule, clocks, chance: chance.stream(name) });
  };
  const model = engine({ schedule, network, trace, machine });
  const pump = new Pump(schedule);
  let clients = 0;
  return {
    open: async () => {
      clients += 1;
      const program = machine(`client ${clients}`);
      const { clock, clocks } = program;
      return model.open(program)({ clock, hostClock: clocks.hostClock, random: program.chance });
    },
    restart: async () => {
      for (const server of model.servers) {
        server.isDown = true;
        await pump.pass(100);
        server.isDown = false;
        server.onReturn?.();
      }
    },
    sleep: (ms) => pump.pass(ms),
    now: () => schedule.now,
    close: async () => pump.stop(),
  };
}

/** Does what is due up to a limit, one thing a turn, for as long as the test runs. */
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
  }

  #turn(): void {
    if (this.#isOver) return;
    const { nextAt } = this.#schedule;
    if (nextAt !== undefined && nextAt <= this.#limit) {
      this.#schedule.step();
    } else if (this.#whenIdle.length > 0) {
      this.#schedule.now = this.#limit;
      for (const idle of this.#whenIdle.splice(0)) idle();
    }
    setImmediate(() => this.#turn());
  }
}
