// Injects the planned faults into a running world and ends them again (the name is Jepsen's). To
// add a fault, add its name to plan.ts and its implementation to `#faults` here.

import type { StoreModel } from "../models/model.ts";
import type { ProgramRunner } from "../program-runner.ts";
import type { Resources } from "../resources.ts";
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
  readonly runners: readonly {
    readonly runner: ProgramRunner;
    readonly clocks: HostClocks;
    readonly rate: number;
  }[];
  /** Resources whose leases may be revoked. */
  readonly contended: readonly string[];
  /** Resources that more than one program wants. */
  readonly shared: readonly string[];
}

/** Begins a fault. Returns the function that ends it, or undefined if it needs no end. */
type Inject = (fault: PlannedFault, target: Target) => (() => void) | undefined;
type Target = NemesisParts["runners"][number];

/** A fault that is expensive to simulate is shortened unless it lasts longer than this many ttl. */
const LONG_TTLS = 2.1;

export class Nemesis {
  readonly #parts: NemesisParts;
  /** Ends the faults in progress. */
  readonly #active = new Set<() => void>();
  #isCalm = false;

  constructor(parts: NemesisParts) {
    this.#parts = parts;
  }

  schedule(): void {
    const { plan, schedule } = this.#parts;
    for (const fault of plan.faults) schedule.at(fault.at, () => this.#begin(fault));
  }

  /** Ends all faults. */
  calm(): void {
    this.#isCalm = true;
    for (const end of [...this.#active]) end();
    this.#parts.network.calm();
    for (const { clocks, rate } of this.#parts.runners) clocks.setRate(rate);
  }

  #begin(fault: PlannedFault): void {
    const { runners } = this.#parts;
    const target = runners[fault.target % runners.length];
    const inject = this.#faults[fault.kind];
    if (this.#isCalm || target === undefined || inject === undefined) return;
    const undo = inject(fault, target);
    if (undo !== undefined) this.#endLater(fault, undo);
  }

  #endLater({ ms }: PlannedFault, undo: () => void): void {
    const end = (): void => {
      if (this.#active.delete(end)) undo();
    };
    this.#active.add(end);
    this.#parts.schedule.after(ms, end);
  }

  #record(fault: PlannedFault, who: string, detail = `${Math.round(fault.ms)} ms`): void {
    this.#parts.trace.fault(who, fault.kind, detail);
  }

  readonly #faults: Partial<Record<FaultKind, Inject>> = {
    pause: (fault, { runner }) => {
      const { program } = runner;
      if (program === undefined) return undefined;
      this.#record(fault, runner.name);
      program.stop();
      return () => program.resume();
    },
    // Recorded when the program is interrupted, which may be long after the planned instant.
    "pause before a write": (fault, { runner }) => {
      const { plan, shared } = this.#parts;
      // A pause longer than the ttl tests the guard, so it waits for a guarded write to a resource
      // that another program will take over.
      const testsGuard = fault.ms > plan.ttlMs;
      runner.beforeWrite((program, { guarded, resource }) => {
        if (this.#isCalm) return true;
        const isTakenOver = guarded && shared.includes(resource) && this.#othersAreUp(runner);
        if (testsGuard && !isTakenOver) return false;
        this.#record(fault, runner.name);
        program.stop();
        this.#endLater(fault, () => program.resume());
        if (testsGuard) this.#revokeDuringPause(fault, runner, resource);
        return true;
      });
      return undefined;
    },
    suspend: (fault, target) => this.#stopMachine(fault, target, "suspended"),
    "machine frozen": (fault, target) => this.#stopMachine(fault, target, "frozen"),
    crash: (fault, { runner }) => {
      this.#record(fault, runner.name);
      runner.crash(fault.ms / 2);
      return undefined;
    },
    "stopped while writing": (fault, { runner }) => {
      const { program } = runner;
      // All other programs retry for the write lock about every millisecond during this fault. Long
      // ones are therefore rare, to keep the simulation fast.
      const ms = fault.ms > LONG_TTLS * this.#parts.plan.ttlMs ? fault.ms : fault.ms / 8;
      return this.#atCommit(runner, { ...fault, ms }, () => {
        program?.stop();
        this.#endLater({ ...fault, ms }, () => program?.resume());
      });
    },
    "killed while writing": (fault, { runner }) =>
      this.#atCommit(runner, fault, () => runner.crash(fault.ms / 2)),
    reboot: (fault, { clocks }) => {
      if (clocks.isStopped) return undefined;
      this.#record(fault, "the machine");
      for (const { runner } of this.#runnersOn(clocks)) runner.crash(fault.ms / 2);
      clocks.reboot();
      return undefined;
    },
    "cut requests": (fault, { runner }) => this.#cut(fault, runner.name, ["out"]),
    "cut answers": (fault, { runner }) => this.#cut(fault, runner.name, ["in"]),
    "cut both ways": (fault, { runner }) => this.#cut(fault, runner.name, ["out", "in"]),
    "cut resource": (fault, { runner }) => {
      const { network, resources } = this.#parts;
      const { name } = resources.program;
      this.#record(fault, runner.name);
      network.cut(runner.name, name);
      return () => network.heal(runner.name, name);
    },
    "clock rate": (fault, { runner, clocks, rate }) => {
      // The clock is slewed to the rate of the store's clock, which is within the stated bound.
      const store = this.#parts.plan.rates[0] ?? 1;
      this.#record(fault, runner.name);
      clocks.setRate(store);
      return () => clocks.setRate(rate);
    },
    "clock far off": (fault, { runner, clocks, rate }) => {
      this.#record(fault, runner.name);
      clocks.setRate(rate * this.#parts.chance.pick([0.5, 0.8, 1.5]));
      return () => clocks.setRate(rate);
    },
    "wall clock set": (fault, { runner, clocks }) => {
      const byMs = this.#parts.chance.pick([-3_600_000, 3_600_000, -5_000, 5_000]);
      this.#record(fault, runner.name, `by ${byMs} ms`);
      clocks.stepWall(byMs);
      return undefined;
    },
    "store paused": (fault) => {
      const { program } = this.#server(fault);
      this.#record(fault, program.name);
      program.stop();
      return () => program.resume();
    },
    "store refuses": (fault) => {
      const server = this.#server(fault);
      this.#record(fault, server.program.name);
      server.isDown = true;
      return () => {
        server.isDown = false;
        server.onReturn?.();
      };
    },
    revoke: (fault, { runner }) => {
      const resource = this.#parts.chance.pick(this.#parts.contended);
      this.#record(fault, runner.name, resource);
      void runner.revoke(resource);
      return undefined;
    },
    "rolling restart": (fault, { runner }) => {
      this.#record(fault, runner.name);
      void runner.restart(fault.ms / 4);
      return undefined;
    },
    replay: (fault) => {
      const { resources } = this.#parts;
      if (resources.replay()) this.#record(fault, resources.program.name, "an old write");
      return undefined;
    },
  };

  /** Whether all other programs are running and can take over. */
  #othersAreUp(paused: ProgramRunner): boolean {
    return this.#parts.runners.every(({ runner }) => runner === paused || isUp(runner));
  }

  /** Revokes the lease of a paused holder before it expires, as an impatient operator would. */
  #revokeDuringPause(fault: PlannedFault, paused: ProgramRunner, resource: string): void {
    const { runners, chance, schedule, trace } = this.#parts;
    if (chance.isTrue(0.2)) return;
    schedule.after(fault.ms * chance.between(0.05, 0.3), () => {
      const other = runners.find(({ runner }) => runner !== paused && isUp(runner));
      if (this.#isCalm || other === undefined) return;
      trace.fault(other.runner.name, "revoke", resource);
      void other.runner.revoke(resource);
    });
  }

  #server(fault: PlannedFault): StoreModel["servers"][number] {
    const { servers } = this.#parts.model;
    const server = servers[fault.target % servers.length];
    if (server === undefined)
      throw new Error("The model has no servers, so this fault has no target.");
    return server;
  }

  #cut(fault: PlannedFault, name: string, ways: readonly ("out" | "in")[]): () => void {
    const { network, model } = this.#parts;
    this.#record(fault, name);
    const paths = model.servers.flatMap(({ program }) =>
      ways.map((way) => (way === "out" ? [name, program.name] : [program.name, name])),
    ) as [string, string][];
    for (const [from, to] of paths) network.cut(from, to);
    return () => {
      for (const [from, to] of paths) network.heal(from, to);
    };
  }

  /**
   * Stops a machine with all its programs. The boot clock continues in suspend, but not when
   * frozen.
   */
  #stopMachine(
    fault: PlannedFault,
    { runner, clocks }: Target,
    how: "suspended" | "frozen",
  ): (() => void) | undefined {
    const programs = this.#runnersOn(clocks).flatMap(({ runner }) => runner.program ?? []);
    // A stopped machine cannot be stopped again.
    if (programs.length === 0 || clocks.isStopped) return undefined;
    this.#record(fault, runner.name);
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

  /** The programs on this machine. */
  #runnersOn(clocks: HostClocks): NemesisParts["runners"] {
    return this.#parts.runners.filter((target) => target.clocks === clocks);
  }

  /** Calls `act` the next time that the program holds the write lock of the store. */
  #atCommit({ name, program }: ProgramRunner, fault: PlannedFault, act: () => void): undefined {
    if (program === undefined) return;
    this.#parts.model.beforeCommit?.(program, () => {
      if (this.#isCalm) return;
      this.#record(fault, name);
      act();
    });
  }
}

function isUp({ program }: ProgramRunner): boolean {
  return program?.isStopped === false;
}
