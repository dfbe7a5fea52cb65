// Simulates Redis: the real Redis store and its real scripts, on a model of one server. The server
// keeps every write, except on runs beyond the bounds (outage.ts).

import { namesOf } from "../../../src/stores/redis/names.ts";
import { openOnWire } from "../../../src/stores/redis/open.ts";
import type { Engine } from "../model.ts";
import { RedisServer } from "./server.ts";
import { simulatedWire } from "./wire.ts";

const SETTINGS = {
  place: undefined,
  names: namesOf("tenure"),
  replicas: 0,
  connectMs: 2_000,
  onWarning: undefined,
};

export const redisEngine: Engine = (site) => {
  const { schedule, network, trace, machine } = site;
  const program = machine("store");
  const server = new RedisServer(program, trace);
  const callee = { program, isDown: false, onReturn: (): void => onReturn() };
  const restart = (): void => {
    trace.countModelEvent("a restart");
    server.restart();
  };
  const onReturn = site.outage?.(callee, server) ?? restart;
  return {
    servers: [callee],
    open: (client) => (parts) =>
      openOnWire(SETTINGS, parts, () =>
        simulatedWire({ schedule, network, trace, client, callee, server }),
      ),
  };
};
