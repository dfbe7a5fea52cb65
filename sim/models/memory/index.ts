// The reference model: the memory store reached over the simulated network. It is linearizable, and
// it never forgets a grant.

import type { GrantRequest, Store } from "../../../src/stores/contract.ts";
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

/** Compares the backend before and after each request, and notes the difference in the trace. */
class Truth {
  readonly #backend: MemoryBackend;
  readonly #trace: Trace;
  readonly #clocks: HostClocks;

  constructor(backend: MemoryBackend, trace: Trace, clocks: HostClocks) {
    this.#backend = backend;
    this.#trace = trace;
    this.#clocks = clocks;
  }

  kept(session: string): void {
    const found = this.#backend.sessions.get(session);
    if (found === undefined) return;
    const until = this.#clocks.trueInstant(found.expiresAt);
    this.#trace.note("store", { kind: "storeKept", session, until });
  }

  granted({ resource, sessionId: session, attempt }: GrantRequest, token: bigint): void {
    this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
  }

  /** Runs `act`, and notes each of these leases that it freed. */
  async freed<T>(how: Ending, held: readonly string[], act: () => Promise<T>): Promise<T> {
    const before = held.flatMap((resource) => {
      const entry = this.#backend.entries.get(resource);
      const session = entry?.held?.session;
      if (entry === undefined || session === undefined) return [];
      // A request that finds a lease expired, or ended with its session, has not freed it.
      const isThere = this.#backend.sessions.get(session.id) === session;
      const isHeld = isThere && session.expiresAt > this.#clocks.now();
      return isHeld ? [{ entry, token: entry.held?.token ?? 0n }] : [];
    });
    const answer = await act();
    for (const { entry, token } of before) {
      const isOver = how === "sessionEnded" || entry.held === undefined || entry.token !== token;
      if (isOver)
        this.#trace.note("store", { kind: "storeFreed", resource: entry.resource, token, how });
    }
    return answer;
  }

  heldBy(session: string): string[] {
    return [...this.#backend.entries.values()]
      .filter((entry) => entry.held?.session.id === session)
      .map(({ resource }) => resource);
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
    grant: async (request) => {
      const outcome = await store.grant(request);
      if (outcome.kind === "granted") truth.granted(request, outcome.token);
      return outcome;
    },
    renew: async (request) => {
      const resources = request.withdrawn.map(({ resource }) => resource);
      const outcome = await truth.freed("withdrawn", resources, () => store.renew(request));
      if (outcome.kind === "renewed") truth.kept(request.sessionId);
      return outcome;
    },
    release: (request) => truth.freed("released", [request.resource], () => store.release(request)),
    withdraw: (request) =>
      truth.freed("withdrawn", [request.resource], () => store.withdraw(request)),
    endSession: (request) =>
      truth.freed("sessionEnded", truth.heldBy(request.sessionId), () => store.endSession(request)),
    revoke: (request) => truth.freed("revoked", [request.resource], () => store.revoke(request)),
    untilFree: (request) => store.untilFree(request),
    read: (request) => store.read(request),
    list: (request) => store.list(request),
    watch: (request) => store.watch(request),
    close: async () => undefined,
  };
}
