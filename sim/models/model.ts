// Defines what a store model is. A model simulates a backend on its own machine, which programs
// reach over the simulated network. On the client side each program opens the store's real code, as
// a real process would.

import type { OpenStore } from "../../src/stores/contract.ts";
import type { Callee } from "../world/call.ts";
import type { HostClocks } from "../world/host-clocks.ts";
import type { Network } from "../world/network.ts";
import type { Program } from "../world/program.ts";
import type { Schedule } from "../world/schedule.ts";
import type { Trace } from "../world/trace.ts";
import type { Forgetful } from "./outage.ts";

/** The parts of the simulated world that a model may use. */
export interface Site {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly trace: Trace;
  /**
   * Present only on runs beyond the stated bounds, where a store may lose data. Returns the
   * function to call when this server comes back from an outage.
   */
  readonly outage?: <Copy>(callee: Callee, server: Forgetful<Copy>) => () => void;
  /** Creates a machine with its own clock. Faults address it by name. */
  machine(name: string): Program;
}

export interface StoreModel {
  /** The machines of the backend. Faults stop them or make them refuse requests. */
  readonly servers: readonly Callee[];
  /** Returns the opener of one program, which has its own client and its own connections. */
  open(program: Program): OpenStore;
  /** The machine that all programs run on, if the store is a file on one machine. */
  readonly host?: HostClocks;
  /** Runs `act` just before the program's next commit. `act` may stop or kill the program. */
  beforeCommit?(program: Program, act: () => void): void;
  /** Called when the run has ended. */
  close?(): void;
}

/**
 * Builds a backend in a world. It notes every `store...` event in the trace, and the checkers treat
 * these events as the truth.
 */
export interface Engine {
  (site: Site): StoreModel;
  /** Must be awaited before the first world is created. */
  readonly ready?: () => Promise<void>;
}
