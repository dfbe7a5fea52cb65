// ZooKeeper, against a bare create and delete of an ephemeral node over the store's own wire. No maintained library for
// Node has a lock recipe to compare with.

import { CREATE, create, exists, remove } from "../../src/clients/zookeeper/messages.ts";
import { zookeeperRequests } from "../../test/servers/requests.ts";
import { startZooKeeper, type ZooKeeperServer } from "../../test/servers/zookeeper.ts";
import { Console } from "../../test/support/stores/zookeeper-nodes.ts";
import type { BenchServer, EngineBench, Floor } from "./engine.ts";

const ACL = { scheme: "world", id: "anyone" } as const;

interface ZooKeeperBenchServer extends BenchServer {
  readonly server: ZooKeeperServer;
}

async function openFloor({ server }: ZooKeeperBenchServer): Promise<Floor> {
  const console = await Console.open(server);
  await console.create("/floor").catch(() => undefined);
  return {
    pair: async (index) => {
      const path = `/floor/${index}`;
      await console.send(create({ path, data: "a holder", acl: ACL, flags: CREATE.ephemeral }));
      await console.send(remove(path));
    },
    trip: async () => void (await console.send(exists("/floor"))),
    close: () => console[Symbol.asyncDispose](),
  };
}

export const zookeeperBench: EngineBench<ZooKeeperBenchServer> = {
  name: "ZooKeeper",
  start: async () => {
    const server = await startZooKeeper({ own: true });
    return {
      server,
      url: server.url,
      requests: () => zookeeperRequests(server),
      [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
    };
  },
  openFloor,
  openPeers: async () => [],
};
