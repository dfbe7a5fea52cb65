// The public entry of the etcd store: its options and the function that makes it. The store itself
// is in store.ts.

import type { EtcdTlsOptions } from "../../clients/etcd/http2-transport.ts";
import { openClient } from "../../clients/etcd/open.ts";
import { checkEtcdOptions, type EtcdOptions } from "../../clients/etcd/options.ts";
import type {
  EtcdCall,
  EtcdMetadata,
  EtcdStream,
  EtcdStreamEvents,
  EtcdTransport,
} from "../../clients/etcd/transport.ts";
import type { OpenStore } from "../contract.ts";
import { EtcdStore } from "./store.ts";

export type {
  EtcdCall,
  EtcdMetadata,
  EtcdOptions,
  EtcdStream,
  EtcdStreamEvents,
  EtcdTlsOptions,
  EtcdTransport,
};

/** A store on an etcd cluster (3.4 or newer). */
export function etcdStore(options: EtcdOptions): OpenStore {
  const settings = checkEtcdOptions(options);
  return async (parts) => new EtcdStore(settings.names, parts, await openClient(settings, parts));
}
