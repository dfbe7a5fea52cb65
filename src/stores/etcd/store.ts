// The store on etcd (3.4 and up). Read it beside memory.ts, which says the same without a server. A session is a lease of
// etcd; what it holds are keys on that lease, and a token is the revision that made the holder's key. Each request is one
// conditional transaction (etcd/grants.ts, etcd/endings.ts); a renewal is proved by a read (etcd/renewal.ts).

import { linkSignals } from "../../async/signals.ts";
import { KeepAlives } from "../../clients/etcd/keep-alive.ts";
import type { Members } from "../../clients/etcd/members.ts";
import type { Names } from "../../clients/etcd/names.ts";
import { Watches } from "../../clients/etcd/watches.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { Attempts } from "./attempts.ts";
import { release, revoke, withdraw } from "./endings.ts";
import { grant } from "./grants.ts";
import { endSession, openSession, renewSession } from "./sessions.ts";
import { Transactions } from "./transactions.ts";
import { list, read } from "./views.ts";
import { untilFree } from "./waiting.ts";
import { watch } from "./watching.ts";

interface Inside {
  readonly members: Members;
  readonly names: Names;
  readonly keepAlives: KeepAlives;
  readonly watches: Watches;
  readonly attempts: Attempts;
  readonly transactions: Transactions;
  readonly clock: StoreParts["clock"];
  readonly closing: AbortSignal;
  now(): number;
}

export class EtcdStore implements Store {
  readonly guarantees: contract.Guarantees = {
    store: "etcd",
    tokenSource: "create_revision: the revision of the cluster at which the holder's key was made",
    tokenFalls: "when the cluster is restored from a snapshot without --bump-revision",
    expiryClock: "the leader's monotonic clock; a new leader gives every lease its full time again",
    ttlStepMs: 1_000,
    expiryLagMs: 1_500,
    wakeUp: "push",
    fifo: true,
    durable: true,
  };
  readonly #inside: Inside;
  readonly #closing = new AbortController();

  constructor(names: Names, { clock }: StoreParts, members: Members) {
    this.#inside = {
      ...{ members, names, clock, closing: this.#closing.signal, attempts: new Attempts() },
      keepAlives: new KeepAlives(members, clock),
      watches: new Watches(members, clock),
      transactions: new Transactions(members, clock),
      now: () => clock.now(),
    };
  }

  openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    return openSession(this.#inside, request);
  }

  grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    return grant(this.#inside, request);
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, acknowledged, limitMs } = request;
    // One that fails is named again by the next renewal; it must not put this one in doubt.
    const given = withdrawn.map((attempt) =>
      this.withdraw({ sessionId, limitMs, ...attempt }).catch(() => undefined),
    );
    const renewing = renewSession(this.#inside, { sessionId, acknowledged, limitMs });
    const [outcome] = await Promise.all([renewing, ...given]);
    return outcome;
  }

  release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    return release(this.#inside, request);
  }

  withdraw(request: contract.AttemptRequest): Promise<void> {
    return withdraw(this.#inside, request);
  }

  endSession(request: contract.SessionRequest): Promise<void> {
    return endSession(this.#inside, request);
  }

  async untilFree(
    request: contract.AttemptRequest & { readonly signal: AbortSignal },
  ): Promise<void> {
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    await untilFree(this.#inside, { ...request, signal }).finally(unlink);
  }

  read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    return read(this.#inside, request);
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const { leases, next } = await list(this.#inside, request);
    return { leases, next };
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    return watch(request, this.#inside);
  }

  revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    return revoke(this.#inside, request);
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const { members, keepAlives, watches } = this.#inside;
    this.#closing.abort(members.closedError());
    watches.close();
    keepAlives.close();
    members.close();
  }
}
