// Decides what an outage of a server was, on runs beyond the stated bounds. The server may have
// kept everything it acknowledged, a stale replica may have taken over, or the server's clock may
// have been set. In the last two cases little but a guard protects the resource.

import type { Callee } from "../world/call.ts";
import type { Trace } from "../world/trace.ts";

/** A server that can lose acknowledged writes. */
export interface Forgetful<Copy> {
  /** The invariants that the store still promises, by what happened. */
  readonly keeps: Readonly<Record<"failover" | "clock", readonly string[]>>;
  /** The data of a replica that is up to date at this moment. */
  copy(): Copy;
  /** Promotes a replica that has this copy and missed all later writes. */
  failOver(copy: Copy): void;
  /** Restarts the server with all its data. */
  restart(): void;
  /** Called after the server's wall clock was set. */
  clockWasSet?(): void;
}

/** Maximum lag of a replica. */
const LAG_MAX_MS = 1_500;
/** Every expiry is decided by the server's wall clock, so setting it moves them all. */
const CLOCK_STEPS_MS = [-1_000, 1_000, 60_000];
/** On runs within the bounds it is always the first one. */
const RETURNS = ["restart", "failover", "clock"] as const;

/** Returns the function to call when the server is back. */
export function outage<Copy>(trace: Trace, callee: Callee, server: Forgetful<Copy>): () => void {
  const { program } = callee;
  const replica = new Replica(callee, server);
  return () => {
    const how = program.chance.pick(RETURNS);
    if (how === "restart") {
      server.restart();
      return;
    }
    trace.note("store", { kind: "storeForgot", keeps: server.keeps[how] });
    if (how === "failover") {
      const lostMs = Math.round(replica.takeOver());
      trace.fault("store", "failover", `the last ${lostMs} ms of writes are lost`);
    } else {
      const byMs = program.chance.pick(CLOCK_STEPS_MS);
      program.clocks.stepWall(byMs);
      trace.fault("store", "server's clock set", `by ${byMs} ms`);
      server.clockWasSet?.();
      server.restart();
    }
  };
}

/**
 * A replica that catches up from time to time. Writes since then are lost when it takes over,
 * because the master acknowledges before it replicates.
 */
class Replica<Copy> {
  readonly #master: Callee;
  readonly #server: Forgetful<Copy>;
  #copy: Copy;
  #at: number;

  constructor(master: Callee, server: Forgetful<Copy>) {
    this.#master = master;
    this.#server = server;
    this.#copy = server.copy();
    this.#at = master.program.clocks.now();
    this.#follow();
  }

  /** Takes over, and returns how many milliseconds of writes were lost. */
  takeOver(): number {
    const now = this.#master.program.clocks.now();
    const lostMs = now - this.#at;
    this.#server.failOver(this.#copy);
    [this.#copy, this.#at] = [this.#server.copy(), now];
    return lostMs;
  }

  #follow(): void {
    const { clock, clocks, chance } = this.#master.program;
    const catchUp = (): void => {
      if (!this.#master.isDown) [this.#copy, this.#at] = [this.#server.copy(), clocks.now()];
      this.#follow();
    };
    clock.setTimer(catchUp, chance.between(0, LAG_MAX_MS));
  }
}
