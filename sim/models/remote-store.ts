// A store whose every method is one request over the simulated network to a store on the server.
// Used for backends that have no client library to run in between.

import { linkSignals } from "../../src/async/signals.ts";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import type {
  AttemptRequest,
  Guarantees,
  LeaseView,
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

/** A waiter's notification can get lost. After this time it asks again by itself. */
const ASK_AGAIN_MS = 1_000;
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

  openSession: Store["openSession"] = (request) =>
    this.#call("opening of a session", request.limitMs, (store) => store.openSession(request));
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

  async untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void> {
    const { network, client, server, store } = this.#parts;
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const wakeup = new Wakeup(client.clock);
    network.send(client, server.program, () => {
      if (server.isDown) return;
      const giveUp = new AbortController();
      // The client may be gone, so the server does not keep a wait for ever.
      const limit = server.program.clock.setTimer(() => giveUp.abort("too long"), 2 * ASK_AGAIN_MS);
      store.untilFree({ ...request, signal: giveUp.signal }).then(
        () => {
          limit.cancel();
          network.send(server.program, client, wakeup.notify);
        },
        () => undefined,
      );
    });
    try {
      await wakeup.wait(ASK_AGAIN_MS, signal);
    } finally {
      unlink();
    }
  }

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
