// Helpers for the tests of the etcd store: key prefixes that no other test uses, and holders,
// stores and proxies that are closed when the test ends.
import { onTestFinished } from "vitest";
import { connect, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Grant, Store } from "../../../src/stores/contract.ts";
import { type EtcdOptions, etcdStore } from "../../../src/stores/etcd/index.ts";
import { startProxy, type TcpProxy } from "../../servers/proxy.ts";

/**
 * Bounds wide enough for two busy cores. The ttl is the shortest that etcd grants with fast
 * elections.
 */
const timing = { ttlMs: 1_000, clockErrorMs: 20, roundTripMs: 150, renewEveryMs: 250 };

let prefixes = 0;

export function newPrefix(): string {
  prefixes += 1;
  return `faults${prefixes}/`;
}

/** The server's address in the form that the `endpoints` option takes. */
export function at(server: { readonly host: string; readonly port: number }): string {
  return `${server.host}:${server.port}`;
}

export async function holder(options: EtcdOptions, defaults: object = timing): Promise<Tenure> {
  const tenure = await connect(etcdStore(options), { defaults });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return tenure;
}

export async function opened(options: EtcdOptions): Promise<Store> {
  const store = await etcdStore(options)(systemParts());
  onTestFinished(() => store.close());
  return store;
}

export async function proxied(server: { readonly url: string }): Promise<TcpProxy> {
  const proxy = await startProxy(server);
  onTestFinished(() => proxy[Symbol.asyncDispose]());
  return proxy;
}

/** Session "one" holds resource "r", and session "two" is queued for it. */
export async function holdAndQueue(
  store: Store,
  waiter: Store = store,
): Promise<{
  token: bigint;
  /** Resolves with the token when the store reports the handoff to session "two". */
  handoff: Promise<bigint>;
  release(): Promise<unknown>;
}> {
  const limitMs = 5_000;
  const ask = (asked: Store, sessionId: string): ReturnType<Store["grant"]> =>
    asked.grant({
      sessionId,
      attempt: `${sessionId}.1`,
      holderId: sessionId,
      resource: "r",
      queue: true,
      limitMs,
    });
  const session = { ttlMs: 60_000, limitMs };
  let granted: (token: bigint) => void = () => undefined;
  const handoff = new Promise<bigint>((resolve) => {
    granted = resolve;
  });
  const events = {
    granted: (grant: Grant) => granted(grant.token),
    lost: () => undefined,
    wanted: () => undefined,
  };
  await store.openSession({ ...session, sessionId: "one", holderId: "one" });
  await waiter.openSession({ ...session, sessionId: "two", holderId: "two", events });
  const held = await ask(store, "one");
  await ask(waiter, "two");
  const token = held.kind === "granted" ? held.token : 0n;
  return {
    token,
    handoff,
    release: () => store.release({ sessionId: "one", resource: "r", token, limitMs }),
  };
}
