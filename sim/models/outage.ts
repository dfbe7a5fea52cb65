// What an outage of a server was, once it is back, on days beyond the bounds: it kept all that it had answered, or a replica that
// is behind has taken over, or the server's clock was set. Then little but a guard helps. The world hands it to the models, which
// share no code of their own (docs/adr/021-what-ships.md).

import type { Callee } from "../world/call.ts";
import type { Trace } from "../world/trace.ts";

/** A server that can lose what it has answered. */
export interface Forgetful<Copy> {
  /** The invariants that the store promises even so, by what happened. */
  readonly keeps: Readonly<Record<"failover" | "clock", readonly string[]>>;
  /** What a replica has that is in step now. */
  copy(): Copy;
  /** A replica takes over that missed what came behind this. */
  failOver(copy: Copy): void;
  /** Back with all its data. */
  restart(): void;
  /** Its wall clock shows something else now. */
  clockWasSet?(): void;
}

/** So far behind its master a replica may be. */
const LAG_MAX_MS = 1_500;
/** Every expiry is judged by the server's wall clock, and moves with it. */
const CLOCK_STEPS_MS = [-1_000, 1_000, 60_000];
/** On other days it is always the first. */
const RETURNS = ["restart", "failover", "clock"] as const;

/** To be called when the server is back. */
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

/** One that is in step now and then. What it missed is lost when it takes over: the master answers before it copies. */
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

  /** How many milliseconds ago it was in step. */
  takeOver(): number {
    const now = this.#master.program.clocks.now();
    const lostMs = now - this.#at;
    this.#server.failOver(this.#copy);
    [this.#copy, this.#at] = [this.#server.copy(), now];
    return lostMs;
  }

  #follow(): void {
    const { clock, clocks, chance } = this.#master.program;
    const look = (): void => {
      if (!this.#master.isDown) [this.#copy, this.#at] = [this.#server.copy(), clocks.now()];
      this.#follow();
    };
    clock.setTimer(look, chance.between(0, LAG_MAX_MS));
  }
}
