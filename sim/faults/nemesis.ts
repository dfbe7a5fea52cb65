// Carries out the planned faults on a running world, and ends them. One entry for each kind: add a fault to plan.ts, then
// here.

import type { Life } from "../life.ts";
import type { StoreModel } from "../models/model.ts";
import type { Resources } from "../resource.ts";
import type { Chance } from "../world/chance.ts";
import type { HostClocks } from "../world/host-clocks.ts";
import type { Network } from "../world/network.ts";
import type { Schedule } from "../world/schedule.ts";
import type { Trace } from "../world/trace.ts";
import type { FaultKind, Plan, PlannedFault } from "./plan.ts";

export interface NemesisParts {
  readonly plan: Plan;
  readonly schedule: Schedule;
  readonly network: Network;
  readonly trace: Trace;
  readonly chance: Chance;
  readonly model: StoreModel;
  readonly resources: Resources;
  readonly lives: readonly {
    readonly life: Life;
    readonly clocks: HostClocks;
    readonly rate: number;
  }[];
  /** Names that somebody may revoke. */
  readonly contended: readonly string[];
  /** Names that more than one program wants. */
  readonly rivalled: readonly string[];
}

/** Does it, and answers how it ends; undefined when it needs no end. */
type Do = (fault: PlannedFault, target: Target) => (() => void) | undefined;
type Target = NemesisParts["lives"][number];

/** Of a fault that costs much to simulate, what is shorter than so many ttl becomes much shorter. */
const LONG_TTLS = 2.1;

export class Nemesis {
  readonly #parts: NemesisParts;
  /** What is under way, so that the calm can end it. */
  readonly #open = new Set<() => void>();
  #isCalm = false;

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  schedule(): void {
    const { plan, schedule } = this.#parts;
    for (const fault of plan.faults) schedule.at(fault.at, () => this.#begin(fault));
  }

  /** Everything that was done is undone. */
  calm(): void {
    this.#isCalm = true;
    for (const end of [...this.#open]) end();
    this.#parts.network.calm();
    for (const { clocks, rate } of this.#parts.lives) clocks.setRate(rate);
  }

  #begin(fault: PlannedFault): void {
    const { lives } = this.#parts;
    const target = lives[fault.target % lives.length];
    const act = this.#acts[fault.kind];
    if (this.#isCalm || target === undefined || act === undefined) return;
    const undo = act(fault, target);
    if (undo !== undefined) this.#endLater(fault, undo);
  }

  #endLater({ ms }: PlannedFault, undo: () => void): void {
    const end = (): void => {
      if (this.#open.delete(end)) undo();
    };
    this.#open.add(end);
    this.#parts.schedule.after(ms, end);
  }

  #tell(fault: PlannedFault, who: string, detail = `${Math.round(fault.ms)} ms`): void {
    this.#parts.trace.fault(who, fault.kind, detail);
  }

  readonly #acts: Partial<Record<FaultKind, Do>> = {
    pause: (fault, { life }) => {
      const { program } = life;
      if (program === undefined) return undefined;
      this.#tell(fault, life.name);
      program.stop();
      return () => program.resume();
    },
    // Told when it comes to pass: at the program's next write.
    "pause before a write": (fault, { life }) => {
      const { plan, rivalled } = this.#parts;
      // One that outlasts the ttl is there for the guard: so it waits for a guarded write where somebody else takes over.
      const isForGuard = fault.ms > plan.ttlMs;
      life.beforeWrite((program, { guarded, resource }) => {
        if (this.#isCalm) return true;
        const isSeen = guarded && rivalled.includes(resource) && this.#areUp(life);
        if (isForGuard && !isSeen) return false;
        this.#tell(fault, life.name);
        program.stop();
        this.#endLater(fault, () => program.resume());
        if (isForGuard) this.#revokeMeanwhile(fault, life, resource);
        return true;
      });
      return undefined;
    },
    suspend: (fault, target) => this.#stopMachine(fault, target, "suspended"),
    "machine frozen": (fault, target) => this.#stopMachine(fault, target, "frozen"),
    crash: (fault, { life }) => {
      this.#tell(fault, life.name);
      life.crash(fault.ms / 2);
      return undefined;
    },
    "stopped while writing": (fault, { life }) => {
      const { program } = life;
      // Everybody tries for the lock a thousand times a second meanwhile: long ones are rare, for the sake of speed.
      const ms = fault.ms > LONG_TTLS * this.#parts.plan.ttlMs ? fault.ms : fault.ms / 8;
      return this.#atCommit(life, { ...fault, ms }, () => {
        program?.stop();
        this.#endLater({ ...fault, ms }, () => program?.resume());
      });
    },
    "killed while writing": (fault, { life }) =>
      this.#atCommit(life, fault, () => life.crash(fault.ms / 2)),
    reboot: (fault, { clocks }) => {
      if (clocks.isStopped) return undefined;
      this.#tell(fault, "the machine");
      for (const { life } of this.#on(clocks)) life.crash(fault.ms / 2);
      clocks.reboot();
      return undefined;
    },
    "cut requests": (fault, { life }) => this.#cut(fault, life.name, ["out"]),
    "cut answers": (fault, { life }) => this.#cut(fault, life.name, ["in"]),
    "cut both ways": (fault, { life }) => this.#cut(fault, life.name, ["out", "in"]),
    "cut resource": (fault, { life }) => {
      const { network, resources } = this.#parts;
      const { name } = resources.program;
      this.#tell(fault, life.name);
      network.cut(life.name, name);
      return () => network.heal(life.name, name);
    },
    "clock rate": (fault, { life, clocks, rate }) => {
      // Slewed back to what the store's clock does: within the bound by any measure.
      const store = this.#parts.plan.rates[0] ?? 1;
      this.#tell(fault, life.name);
      clocks.setRate(store);
      return () => clocks.setRate(rate);
    },
    "clock far off": (fault, { life, clocks, rate }) => {
      this.#tell(fault, life.name);
      clocks.setRate(rate * this.#parts.chance.pick([0.5, 0.8, 1.5]));
      return () => clocks.setRate(rate);
    },
    "wall clock set": (fault, { life, clocks }) => {
      const byMs = this.#parts.chance.pick([-3_600_000, 3_600_000, -5_000, 5_000]);
      this.#tell(fault, life.name, `by ${byMs} ms`);
      clocks.stepWall(byMs);
      return undefined;
    },
    "store paused": (fault) => {
      const { program } = this.#server(fault);
      this.#tell(fault, program.name);
      program.stop();
      return () => program.resume();
    },
    "store refuses": (fault) => {
      const server = this.#server(fault);
      this.#tell(fault, server.program.name);
      server.isDown = true;
      return () => {
        server.isDown = false;
        server.onReturn?.();
      };
    },
    revoke: (fault, { life }) => {
      const resource = this.#parts.chance.pick(this.#parts.contended);
      this.#tell(fault, life.name, resource);
      void life.revoke(resource);
      return undefined;
    },
    "rolling restart": (fault, { life }) => {
      this.#tell(fault, life.name);
      void life.restart(fault.ms / 4);
      return undefined;
    },
    replay: (fault) => {
      const { resources } = this.#parts;
      if (resources.replay()) this.#tell(fault, resources.program.name, "an old write");
      return undefined;
    },
  };

  /** Whether all others are there to take over. */
  #areUp(hanging: Life): boolean {
    return this.#parts.lives.every(({ life }) => life === hanging || isUp(life));
  }

  /** An operator who does not wait until the store lets go of a holder that hangs. */
  #revokeMeanwhile(fault: PlannedFault, hanging: Life, resource: string): void {
    const { lives, chance, schedule, trace } = this.#parts;
    if (chance.isTrue(0.2)) return;
    schedule.after(fault.ms * chance.between(0.05, 0.3), () => {
      const other = lives.find(({ life }) => life !== hanging && isUp(life));
      if (this.#isCalm || other === undefined) return;
      trace.fault(other.life.name, "revoke", resource);
      void other.life.revoke(resource);
    });
  }

  #server(fault: PlannedFault): StoreModel["servers"][number] {
    const { servers } = this.#parts.model;
    const server = servers[fault.target % servers.length];
    if (server === undefined) throw new Error("A store without machines cannot be paused.");
    return server;
  }

  #cut(fault: PlannedFault, name: string, ways: readonly ("out" | "in")[]): () => void {
    const { network, model } = this.#parts;
    this.#tell(fault, name);
    const paths = model.servers.flatMap(({ program }) =>
      ways.map((way) => (way === "out" ? [name, program.name] : [program.name, name])),
    ) as [string, string][];
    for (const [from, to] of paths) network.cut(from, to);
    return () => {
      for (const [from, to] of paths) network.heal(from, to);
    };
  }

  /** All that runs on it stops; in suspend the boot clock goes on, frozen from outside no clock does. */
  #stopMachine(
    fault: PlannedFault,
    { life, clocks }: Target,
    how: "suspended" | "frozen",
  ): (() => void) | undefined {
    const programs = this.#on(clocks).flatMap((on) => on.life.program ?? []);
    // One thing at a time: a machine that is asleep cannot fall asleep.
    if (programs.length === 0 || clocks.isStopped) return undefined;
    this.#tell(fault, life.name);
    clocks.stop(how);
    for (const program of programs) program.stop();
    return () => {
      clocks.run();
      for (const program of programs) {
        if (how === "suspended") program.jump();
        program.resume();
      }
    };
  }

  /** Those that run on this machine. */
  #on(clocks: HostClocks): NemesisParts["lives"] {
    return this.#parts.lives.filter((target) => target.clocks === clocks);
  }

  /** With the store's write lock in the program's hand, the next time that it has it. */
  #atCommit({ name, program }: Life, fault: PlannedFault, act: () => void): undefined {
    if (program === undefined) return;
    this.#parts.model.beforeCommit?.(program, () => {
      if (this.#isCalm) return;
      this.#tell(fault, name);
      act();
    });
  }
}

function isUp({ program }: Life): boolean {
  return program?.isStopped === false;
}
