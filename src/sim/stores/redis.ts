// Redis in the world: the real store for Redis and its real scripts, over a model of one server that keeps what it wrote. On
// days beyond the bounds a replica that is behind may take over, or the server's clock may be set: then nothing but a guard helps.

import { redisStore } from "../../stores/redis.ts";
import type { Callee } from "../world/call.ts";
import type { Engine } from "./model.ts";
import type { Copy } from "./redis/key-space.ts";
import { RedisServer } from "./redis/server.ts";
import { simulatedWire } from "./redis/wire.ts";

/** So far behind its master a replica may be. */
const LAG_MAX_MS = 1_500;
/** Every expiry is judged by the server's wall clock, and moves with it. */
const CLOCK_STEPS_MS = [-1_000, 1_000, 60_000];
/** What an outage was, on days beyond the bounds; on others, a restart. */
const RETURNS = ["restart", "failover", "clock"] as const;

export const redisEngine: Engine = (site) => {
  const { schedule, network, trace, machine } = site;
  const program = machine("store");
  const server = new RedisServer(program, trace);
  const callee = { program, isDown: false, onReturn: (): void => onReturn() };
  const replica = site.isBeyondBounds ? new Replica(callee, server) : undefined;
  const onReturn = (): void => {
    const how = replica === undefined ? "restart" : program.chance.pick(RETURNS);
    if (how === "restart" || replica === undefined) {
      trace.saw("a restart");
      server.restart();
    } else if (how === "failover") {
      const lostMs = Math.round(replica.takeOver());
      trace.fault("store", "failover", `the last ${lostMs} ms of writes are lost`);
    } else {
      const byMs = program.chance.pick(CLOCK_STEPS_MS);
      program.clocks.stepWall(byMs);
      trace.note("store", { kind: "storeForgot" });
      trace.fault("store", "server's clock set", `by ${byMs} ms`);
      server.restart();
    }
  };
  return {
    servers: [callee],
    open: (client) =>
      redisStore({
        wire: () => simulatedWire({ schedule, network, client, callee, server }),
        connectMs: 2_000,
      }),
  };
};

/** One that is in step now and then. What it missed is lost when it takes over: Redis answers before it copies. */
class Replica {
  readonly #master: Callee;
  readonly #server: RedisServer;
  #copy: Copy;
  #at: number;

  constructor(master: Callee, server: RedisServer) {
    this.#master = master;
    this.#server = server;
    this.#copy = server.copy();
    this.#at = master.program.clocks.now();
    this.#follow();
  }

  /** How many milliseconds ago it was in step. */
  takeOver(): number {
    this.#server.failOver(this.#copy);
    this.#copy = this.#server.copy();
    return this.#master.program.clocks.now() - this.#at;
  }

  #follow(): void {
    const { clock, clocks, chance } = this.#master.program;
    const look = (): void => {
      if (!this.#master.isDown) {
        this.#copy = this.#server.copy();
        this.#at = clocks.now();
      }
      this.#follow();
    };
    clock.setTimer(look, chance.between(0, LAG_MAX_MS));
  }
}
