// Runs the conformance suite on the etcd store: one real server, real time, and a separate prefix
// for each test.
import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../../src/runtime/system.ts";
import { etcdStore } from "../../../src/stores/etcd/index.ts";
import { type StoreHarness, storeSuite } from "../../../src/testing/index.ts";
import { type EtcdServer, startEtcd } from "../../servers/etcd.ts";
import { useServer } from "../../servers/use-server.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const etcd = useServer(startEtcd, { fastElections: true });
let prefixes = 0;

storeSuite(onSharedServer, {
  name: "etcd",
  // Whole seconds, and long enough for fifty grants in a row, each with a flush to disk, even on a
  // busy machine.
  ttlMs: 3_000,
  skipsQuiet: false,
  guarantees: { fifo: true, durable: true },
  create: async () => harness(etcd()),
});

function harness(server: EtcdServer): StoreHarness {
  prefixes += 1;
  const prefix = `suite${prefixes}/`;
  const open = etcdStore({ url: `etcd://${server.host}:${server.port}`, prefix });
  return {
    open: () => open(systemParts()),
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    restart: async () => {
      await server.kill();
      await server.start();
    },
    deleteRows: async (resource) => {
      const [key, end] = ["\0", "\x01"].map((last) =>
        Buffer.from(`${prefix}l/${resource}${last}`).toString("base64"),
      );
      await server.call("/v3/kv/deleterange", { key, range_end: end });
    },
    close: async () => undefined,
  };
}
