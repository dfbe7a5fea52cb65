// The reference model: the memory store reached over the simulated network. It is linearizable, and
// it never forgets a grant.

import type { Store } from "../../../src/stores/contract.ts";
import { expiresAt } from "../../../src/stores/memory/backend.ts";
import { MemoryBackend, memoryStore } from "../../../src/stores/memory/index.ts";
import type { HostClocks } from "../../world/host-clocks.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import type { Engine, Site, StoreModel } from "../model.ts";
import { RemoteStore } from "../remote-store.ts";

export const memoryEngine: Engine = (site) => memoryModel(site, new MemoryBackend());

/** The same model on a backend that already has data. */
export function memoryModel({ network, trace, machine }: Site, backend: MemoryBackend): StoreModel {
  const program = machine("store");
  const server = { program, isDown: false };
  const opened = memoryStore(backend)({
    clock: program.clock,
    hostClock: program.clocks.hostClock,
    random: program.chance,
    warn: () => undefined,
  });
  const truth = new Truth(backend, trace, program.clocks);
  const serving = opened.then((store) => witnessed(store, truth));
  return {
    servers: [server],
    open: (client) => async () =>
      new RemoteStore({ network, client, server, store: await serving }),
  };
}

type Held = NonNullable<NonNullable<ReturnType<MemoryBackend["entries"]["get"]>>["held"]>;

/** Notes every change of the backend in the trace, at the moment when it happens. */
class Truth {
  readonly #backend: MemoryBackend;
  readonly #trace: Trace;
  readonly #clocks: HostClocks;
  /** The holder of each resource at the last change. */
  readonly #held = new Map<string, Held>();
  /** How the request that is being handled ends leases. */
  #ending: Ending = "released";

  constructor(backend: MemoryBackend, trace: Trace, clocks: HostClocks) {
    this.#backend = backend;
    this.#trace = trace;
    this.#clocks = clocks;
    backend.onChange(() => this.#compare());
  }

  kept(session: string): void {
    const found = this.#backend.sessions.get(session);
    if (found === undefined) return;
    const until = this.#clocks.trueInstant(expiresAt(found));
    this.#trace.note("store", { kind: "storeKept", session, until });
  }

  /** Runs `act`. The backend changes before it returns. */
  during<T>(how: Ending, act: () => Promise<T>): Promise<T> {
    this.#ending = how;
    return act();
  }

  #compare(): void {
    for (const { resource, held } of this.#backend.entries.values()) {
      const before = this.#held.get(resource);
      if (held === before) continue;
      // A session that has expired was not ended by this request.
      if (before !== undefined && expiresAt(before.session) > this.#clocks.now()) {
        const { token } = before;
        this.#trace.note("store", { kind: "storeFreed", resource, token, how: this.#ending });
      }
      if (held === undefined) this.#held.delete(resource);
      else {
        this.#held.set(resource, held);
        const { token, attempt } = held;
        const session = held.session.id;
        this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
      }
    }
  }
}

function witnessed(store: Store, truth: Truth): Store {
  const seen = new Set<string>();
  return {
    guarantees: { ...store.guarantees, durable: true },
    openSession: async (request) => {
      // A late copy must not revive a session: the server remembers that it existed.
      if (seen.has(request.sessionId)) return { ttlMs: request.ttlMs };
      seen.add(request.sessionId);
      const opened = await store.openSession(request);
      truth.kept(request.sessionId);
      return opened;
    },
    grant: (request) => store.grant(request),
    renew: async (request) => {
      const outcome = await truth.during("withdrawn", () => store.renew(request));
      if (outcome.kind === "renewed") truth.kept(request.sessionId);
      return outcome;
    },
    release: (request) => truth.during("released", () => store.release(request)),
    withdraw: (request) => truth.during("withdrawn", () => store.withdraw(request)),
    endSession: (request) => truth.during("sessionEnded", () => store.endSession(request)),
    revoke: (request) => truth.during("revoked", () => store.revoke(request)),
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    watch: (request) => store.watch(request),
    close: async () => undefined,
  };
}
