// etcd, against two bare transactions over the store's own transport, and against etcd3's Lock.

import type { Txn } from "../../src/clients/etcd/kv.ts";
import { openMembers } from "../../src/clients/etcd/open.ts";
import { checkEtcdOptions } from "../../src/clients/etcd/options.ts";
import { range, txn } from "../../src/clients/etcd/rpc.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { startEtcd } from "../../test/servers/etcd.ts";
import { etcdRequests } from "../../test/servers/requests.ts";
import { pinnedVersion, tryLoadPeer } from "../peers/install.ts";
import type { BenchServer, EngineBench, Floor, Peer } from "./engine.ts";

const LIMIT_MS = 5_000;

async function openFloor({ url }: BenchServer): Promise<Floor> {
  const settings = checkEtcdOptions({ url, onWarning: () => undefined });
  const members = await openMembers(settings, systemParts());
  const limits = { limitMs: LIMIT_MS };
  const value = Buffer.from("a holder");
  return {
    pair: async (index) => {
      const key = Buffer.from(`floor/${index}`);
      const put: Txn = {
        when: [{ key, target: "create", is: "=", than: 0n }],
        yes: [{ put: { key, value, lease: 0n } }],
        no: [{ get: { key } }],
      };
      const { succeeded, header } = await members.call(txn, put, limits);
      const drop: Txn = {
        when: [{ key, target: "create", is: "=", than: header.revision }],
        yes: [{ remove: { key } }],
        no: [],
      };
      const freed = await members.call(txn, drop, limits);
      if (!succeeded || !freed.succeeded) throw new Error("the floor did not lock");
    },
    trip: async () => void (await members.call(range, { key: Buffer.from("floor") }, limits)),
    close: async () => members.close(),
  };
}

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
      name: `etcd3 ${pinnedVersion("etcd3")} Lock`,
      pair: async (index) => {
        const lock = await client.lock(`etcd3/${index}`).ttl(10).acquire();
        await lock.release();
      },
      close: async () => client.close(),
    },
  ];
}

export const etcdBench: EngineBench = {
  name: "etcd",
  start: async () => {
    const server = await startEtcd({ own: true });
    const place = `${server.host}:${server.port}`;
    return {
      url: `etcd://${place}`,
      requests: () => etcdRequests(server),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
  openFloor,
  openPeers,
  peerShare: 2,
};
