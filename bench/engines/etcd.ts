// etcd, against etcd3's Lock. There is a row for it as soon as there is a store for etcd; a floor through that store's own
// client is added here then.

import { existsSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { startEtcd } from "../../test/servers/etcd.ts";
import { tryLoadPeer } from "../peers/install.ts";
import type { BenchServer, EngineBench, Peer } from "./engine.ts";

interface Etcd3Module {
  Etcd3: new (options: {
    hosts: string;
  }) => {
    lock(key: string): { ttl(seconds: number): LockBuilder };
    close(): void;
  };
}
interface LockBuilder {
  acquire(): Promise<{ release(): Promise<void> }>;
}

async function openPeers({ url }: BenchServer): Promise<Peer[]> {
  const library = await tryLoadPeer<Etcd3Module>("etcd3");
  if (library === undefined) return [];
  const client = new library.Etcd3({ hosts: url.replace(/^etcd:/, "http:") });
  return [
    {
      name: "etcd3 1.1.2 Lock",
      pair: async (index) => {
        const lock = await client.lock(`etcd3/${index}`).ttl(10).acquire();
        await lock.release();
      },
      close: async () => client.close(),
    },
  ];
}

const hasStore = existsSync(fileURLToPath(new URL("../../src/stores/etcd.ts", import.meta.url)));

/** Empty while there is no store for etcd. */
export const etcdBenches: readonly EngineBench[] = hasStore
  ? [
      {
        name: "etcd",
        start: async () => {
          const server = await startEtcd({ own: true });
          return {
            url: `etcd://${server.host}:${server.port}`,
            requests: async () => Number.NaN,
            [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
          };
        },
        floorShare: 0.85,
        openPeers,
        peerShare: 2,
      },
    ]
  : [];
