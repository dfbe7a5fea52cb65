// Runs the conformance suite on the ZooKeeper store: one real server, real time, and a separate
// root for each test.
import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../../src/runtime/system.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { type StoreHarness, storeSuite } from "../../../src/testing/index.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../servers/zookeeper.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";
import { deleteBelow } from "../../support/stores/zookeeper-nodes.ts";

const TICK_MS = 250;
const zookeeper = useServer(startZooKeeper, { tickTimeMs: TICK_MS, maxSessionTimeoutMs: 120_000 });
let roots = 0;

storeSuite(onSharedServer, {
  name: "zookeeper",
  // Long enough for fifty grants in a row, each with a flush to disk, even on a busy machine.
  ttlMs: 1_500,
  skipsQuiet: false,
  guarantees: { fifo: true, durable: true },
  create: async () => harness(zookeeper()),
});

function harness(server: ZooKeeperServer): StoreHarness {
  roots += 1;
  const root = `/suite${roots}`;
  const hosts = `${server.host}:${server.port}`;
  const open = zookeeperStore({ url: `zookeeper://${hosts}`, prefix: root, tickMs: TICK_MS });
  return {
    open: () => open(systemParts()),
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    restart: async () => {
      await server.kill();
      await server.start();
    },
    deleteRows: (resource) => deleteBelow(server, `${root}/leases/${resource}`),
    close: async () => undefined,
  };
}
