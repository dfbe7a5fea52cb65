// The public entry of the ZooKeeper store: its options and the function that makes it. The store
// itself is in store.ts.

import type { ZooKeeperDial } from "../../clients/zookeeper/hosts.ts";
import { checkZooKeeperOptions, type ZooKeeperOptions } from "../../clients/zookeeper/options.ts";
import { openReader } from "../../clients/zookeeper/reader.ts";
import type { OpenStore } from "../contract.ts";
import { ZooKeeperStore } from "./store.ts";

export type { ZooKeeperDial, ZooKeeperOptions };

/** A store on a ZooKeeper ensemble (3.6 or newer). */
export function zookeeperStore(options: ZooKeeperOptions): OpenStore {
  const settings = checkZooKeeperOptions(options);
  const { leases, sessions } = settings.names;
  return async ({ clock }) =>
    new ZooKeeperStore(settings, clock, await openReader(settings, clock, [leases, sessions]));
}
