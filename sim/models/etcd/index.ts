// Simulates etcd: the real etcd store, down to its messages, on a model of the cluster.

import { etcdStore } from "../../../src/stores/etcd/index.ts";
import type { Engine } from "../model.ts";
import { EtcdServer } from "./server.ts";
import { SimulatedTransport } from "./transport.ts";

export const etcdEngine: Engine = ({ schedule, network, trace, machine }) => {
  const program = machine("store");
  const server = new EtcdServer(program, trace);
  const streams = new Set<() => void>();
  const callee = {
    program,
    isDown: false,
    onReturn: (): void => {
      server.elect();
      for (const broken of [...streams]) broken();
    },
  };
  return {
    servers: [callee],
    open: (client) =>
      etcdStore({
        client: new SimulatedTransport({
          schedule,
          network,
          trace,
          client,
          callee,
          server,
          streams,
        }),
        connectMs: 2_000,
      }),
  };
};
