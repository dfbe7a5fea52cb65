// Simulates Redis: the real Redis store and its real scripts, on a model of one server. The server
// keeps every write, except on runs beyond the bounds (outage.ts).

import { redisStore } from "../../../src/stores/redis/index.ts";
import type { Engine } from "../model.ts";
import { RedisServer } from "./server.ts";
import { simulatedWire } from "./wire.ts";

export const redisEngine: Engine = (site) => {
  const { schedule, network, trace, machine } = site;
  const program = machine("store");
  const server = new RedisServer(program, trace);
  const callee = { program, isDown: false, onReturn: (): void => onReturn() };
  const restart = (): void => {
    trace.saw("a restart");
    server.restart();
  };
  const onReturn = site.outage?.(callee, server) ?? restart;
  return {
    servers: [callee],
    open: (client) =>
      redisStore({
        wire: () => simulatedWire({ schedule, network, trace, client, callee, server }),
        connectMs: 2_000,
      }),
  };
};
