// A store whose every method is one request over the simulated network to a store on the server.
// Used for backends that have no client library to run in between.

import { linkSignals } from "../../src/async/signals.ts";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import type {
  Guarantees,
  LeaseView,
  SessionEvents,
  Store,
  WatchRequest,
} from "../../src/stores/contract.ts";
import { changes } from "../../src/stores/shared/changes.ts";
import { Wakeup } from "../../src/stores/shared/wakeup.ts";
import { type Callee, call } from "../world/call.ts";
import type { Network } from "../world/network.ts";
import type { Program } from "../world/program.ts";

export interface RemoteParts {
  readonly network: Network;
  readonly client: Program;
  readonly server: Callee;
  /** The store on the server. */
  readonly store: Store;
}

const POLL_MS = 400;
const LIMIT_MS = 1_000;
const PAGE = 1_000;

export class RemoteStore implements Store {
  readonly guarantees: Guarantees;
  readonly #parts: RemoteParts;
  readonly #closing = new AbortController();

  constructor(parts: RemoteParts) {
    this.#parts = parts;
    this.guarantees = parts.store.guarantees;
  }

  openSession: Store["openSession"] = (request) => {
    const events = request.events && this.#overNetwork(request.events);
    return this.#call("opening of a session", request.limitMs, (store) =>
      store.openSession({ ...request, events }),
    );
  };
  grant: Store["grant"] = (request) =>
    this.#call("request for a grant", request.limitMs, (store) => store.grant(request));
  renew: Store["renew"] = (request) =>
    this.#call("renewal", request.limitMs, (store) => store.renew(request));
  release: Store["release"] = (request) =>
    this.#call("release", request.limitMs, (store) => store.release(request));
  withdraw: Store["withdraw"] = (request) =>
    this.#call("withdrawal", request.limitMs, (store) => store.withdraw(request));
  endSession: Store["endSession"] = (request) =>
    this.#call("end of a session", request.limitMs, (store) => store.endSession(request));
  read: Store["read"] = (request) =>
    this.#call("read", request.limitMs, (store) => store.read(request));
  list: Store["list"] = (request) =>
    this.#call("listing", request.limitMs, (store) => store.list(request));
  revoke: Store["revoke"] = (request) =>
    this.#call("revocation", request.limitMs, (store) => store.revoke(request));

  async *watch(request: WatchRequest): AsyncIterable<LeaseView> {
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const wakeup = new Wakeup(this.#parts.client.clock);
    const seen = new Map<string, bigint>();
    const { prefix } = request;
    try {
      while (!signal.aborted) {
        const listing = this.list({ prefix, limit: PAGE, limitMs: LIMIT_MS });
        const page = await listing.catch(() => undefined);
        if (page !== undefined) {
          yield* changes(seen, page.leases);
          request.onCaughtUp?.();
        }
        await wakeup.wait(POLL_MS, signal).catch(() => undefined);
      }
    } finally {
      unlink();
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new StoreUnavailableError("The store is closed.", { applied: "no" }));
  }

  /** Events are messages of their own: they get lost, come late or twice, or out of order. */
  #overNetwork(events: SessionEvents): SessionEvents {
    const { network, client, server } = this.#parts;
    const send = (arrive: () => void): void =>
      network.send(server.program, client, () => {
        if (!this.#closing.signal.aborted) arrive();
      });
    return {
      granted: (grant) => send(() => events.granted(grant)),
      lost: (ref) => send(() => events.lost(ref)),
      wanted: (ref) => send(() => events.wanted(ref)),
    };
  }

  async #call<T>(what: string, limitMs: number, handle: (store: Store) => Promise<T>): Promise<T> {
    this.#closing.signal.throwIfAborted();
    const { network, client, server, store } = this.#parts;
    return call({
      network,
      from: client,
      to: server,
      what,
      limitMs,
      handle: () => handle(store),
    });
  }
}
