// The seam for stores in the world. A model is the far side: what the backend does, on a machine of its own, reached over
// the simulated network. The near side is the store's real code, opened by each program as a real process would.

import type { OpenStore } from "../../src/stores/contract.ts";
import type { Callee } from "../world/call.ts";
import type { HostClocks } from "../world/host-clocks.ts";
import type { Network } from "../world/network.ts";
import type { Program } from "../world/program.ts";
import type { Schedule } from "../world/schedule.ts";
import type { Trace } from "../world/trace.ts";
import type { Forgetful } from "./outage.ts";

/** What a model may use of the world. */
export interface Site {
  readonly schedule: Schedule;
  readonly network: Network;
  readonly trace: Trace;
  /** Only on days beyond the bounds, on which a store may forget: what happens when this server is back from an outage. */
  readonly outage?: <Copy>(callee: Callee, server: Forgetful<Copy>) => () => void;
  /** A new machine with a clock of its own; faults hit it by its name. */
  machine(name: string): Program;
}

export interface StoreModel {
  /** The machines of the backend: faults stop them and make them refuse. */
  readonly servers: readonly Callee[];
  /** For one program: its own client, with its own connections. */
  open(program: Program): OpenStore;
  /** Where all programs run, when the store is a file of one machine. */
  readonly host?: HostClocks;
  /** Just before the program's next commit `act` comes to pass, which may stop or kill it. */
  beforeCommit?(program: Program, act: () => void): void;
  /** The day is over. */
  close?(): void;
}

/** Builds a backend in a world. It notes every `store...` event in the trace: the checkers take that for the truth. */
export interface Engine {
  (site: Site): StoreModel;
  /** To be awaited before the first world. */
  readonly ready?: () => Promise<void>;
}
