// Goal: the search recognizes linearizable histories, and all models are linearizable on an
// unreliable network. Method: histories that are known to be good or bad; then clients with random
// requests on a network that loses and delays messages. It does not duplicate them, because a
// request that is applied twice is not one operation.
import { describe, expect, test } from "vitest";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import type { Store } from "../../src/stores/contract.ts";
import { loadEngine, MODEL_NAMES } from "../run.ts";
import { Chance } from "../world/chance.ts";
import { FINE } from "../world/network.ts";
import { type LeaseAnswer, type LeaseRequest, leaseSpec } from "./support/lease-spec.ts";
import { linearizability, type Operation } from "./support/linearizable.ts";
import { type ModelBench, modelBench } from "./support/model-bench.ts";

type Asked = Operation<LeaseRequest, LeaseAnswer>;

function op(request: LeaseRequest, sentAt: number, at?: number, value?: LeaseAnswer): Asked {
  if (at === undefined || value === undefined) return { request, sentAt };
  return { request, sentAt, answer: { at, value } };
}

function toGrant(session: string, attempt = `${session}.1`): LeaseRequest {
  return { do: "grant", session, attempt };
}

function yes(token: bigint): LeaseAnswer {
  return { kind: "granted", token };
}

const read: LeaseRequest = { do: "read" };

function seen(token: bigint | undefined): LeaseAnswer {
  return { kind: "read", token };
}

const GOOD: Record<string, Asked[]> = {
  "sequential requests": [
    op(toGrant("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(toGrant("b"), 4, 5, yes(2n)),
  ],
  "overlapping requests that take effect in another order": [
    op(toGrant("a"), 0, 10, { kind: "busy" }),
    op(toGrant("b"), 1, 9, yes(1n)),
  ],
  "an unanswered grant that a read has seen": [
    op(toGrant("a"), 0),
    op(read, 5, 6, seen(7n)),
    op(toGrant("a"), 7, 8, yes(7n)),
  ],
  "an unanswered release that took effect much later": [
    op(toGrant("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2),
    op(toGrant("b"), 3, 4, { kind: "busy" }),
    op(toGrant("b", "b.2"), 5, 6, yes(2n)),
  ],
  "an unanswered request that never took effect": [
    op(toGrant("a"), 0),
    op(read, 5, 6, seen(undefined)),
    op(toGrant("b"), 7, 8, yes(1n)),
  ],
};

const BAD: Record<string, Asked[]> = {
  "two grants of one resource": [op(toGrant("a"), 0, 1, yes(1n)), op(toGrant("b"), 2, 3, yes(2n))],
  "two grants at the same time": [
    op(toGrant("a"), 0, 10, yes(1n)),
    op(toGrant("b"), 0, 10, yes(2n)),
  ],
  "a token that falls": [
    op(toGrant("a"), 0, 1, yes(5n)),
    op({ do: "release", session: "a", token: 5n }, 2, 3, { kind: "released" }),
    op(toGrant("b"), 4, 5, yes(4n)),
  ],
  "an outdated read": [op(toGrant("a"), 0, 1, yes(1n)), op(read, 2, 3, seen(undefined))],
  "a free resource reported as busy": [
    op(toGrant("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(toGrant("b"), 4, 5, { kind: "busy" }),
  ],
  "a release of the successor's lease": [
    op(toGrant("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(toGrant("b"), 4, 5, yes(2n)),
    op({ do: "release", session: "a", token: 1n }, 6, 7, { kind: "released" }),
  ],
  "a second grant of an ended attempt": [
    op(toGrant("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(toGrant("a"), 4, 5, yes(2n)),
  ],
};

describe("the search", () => {
  test.each(Object.entries(GOOD))("accepts %s", (_, history) => {
    expect(linearizability(leaseSpec, history)).toBe("yes");
  });

  test.each(Object.entries(BAD))("rejects %s", (_, history) => {
    expect(linearizability(leaseSpec, history)).toBe("no");
  });

  test("answers unknown if it would take too many tries", () => {
    const history = GOOD["sequential requests"] ?? [];
    expect(linearizability(leaseSpec, history, 1)).toBe("unknown");
  });
});

const CLIENTS = 3;
const REQUESTS = 9;
const TTL_MS = 600_000;
const LIMIT_MS = 400;

/** Runs one client that sends random requests, each once, and returns its history. */
async function runClient(
  store: Store,
  bench: ModelBench,
  chance: Chance,
  session: string,
): Promise<Asked[]> {
  const history: Asked[] = [];
  let token = 1n;
  for (let count = 1; count <= REQUESTS; count += 1) {
    const attempt = `${session}.${count}`;
    const request = chance.pick<LeaseRequest>([
      { do: "grant", session, attempt },
      { do: "grant", session, attempt },
      { do: "release", session, token },
      { do: "release", session, token },
      { do: "revoke", token },
      { do: "read" },
    ]);
    const sentAt = bench.now();
    try {
      const value = await ask(store, request);
      history.push({ request, sentAt, answer: { at: bench.now(), value } });
      if (value.kind === "granted" || (value.kind === "read" && value.token !== undefined))
        token = value.token ?? token;
    } catch (error) {
      if (!(error instanceof StoreUnavailableError)) throw error;
      // With "no" the request was not applied, so it is left out. If it was, the history shows it.
      if (error.applied === "unknown") history.push({ request, sentAt });
      else await nextTurn(undefined);
    }
  }
  return history;
}

/** A disconnected store rejects immediately, so a retry loop must give way to the simulation. */
function nextTurn<T>(value: T): Promise<T> {
  return new Promise((resolve) => setImmediate(() => resolve(value)));
}

async function ask(store: Store, request: LeaseRequest): Promise<LeaseAnswer> {
  const facts = { resource: "r", limitMs: LIMIT_MS };
  if (request.do === "read") {
    const { holder } = await store.read({ ...facts, consistency: "linearizable" });
    return { kind: "read", token: holder?.token };
  }
  if (request.do === "revoke") return store.revoke({ ...facts, token: request.token });
  const sessionId = request.session;
  if (request.do === "release") return store.release({ ...facts, sessionId, token: request.token });
  const asked = { ...facts, sessionId, attempt: request.attempt };
  if (request.do === "withdraw") {
    await store.withdraw(asked);
    return { kind: "withdrawn" };
  }
  const outcome = await store.grant({ ...asked, holderId: sessionId, queue: false });
  if (outcome.kind === "gone" || outcome.kind === "queued")
    throw new Error(
      `The answer is ${outcome.kind}, for a long ttl and a request that does not queue.`,
    );
  return outcome.kind === "granted" ? outcome : { kind: outcome.kind };
}

/**
 * On ZooKeeper a request that does not wait enters the queue for a moment, so other requests may be
 * answered "busy" because of it (docs/stores/zookeeper.md, Limits). We therefore check only the
 * grants and how they ended.
 */
function onlyGrants(history: readonly Asked[]): Asked[] {
  const values = history.map(({ answer }) => answer?.value);
  const tokens = new Set(values.map((value) => (value?.kind === "granted" ? value.token : 0n)));
  return history.filter(({ request, answer }) => {
    if (request.do === "read" || answer?.value.kind === "busy") return false;
    return !("token" in request) || tokens.has(request.token);
  });
}

describe.each(MODEL_NAMES)("the model of %s", (name) => {
  test("is linearizable when requests and answers are lost or late", async () => {
    const engine = await loadEngine(name);
    let answered = 0;
    let lost = 0;
    for (let seed = 1; seed <= 40; seed += 1) {
      const chance = new Chance(`${name} ${seed}`);
      const weather = { ...FINE, usualMs: 20, loss: 0.1, slow: 0.3, slowMs: 300 };
      const bench = modelBench(engine, { chance, weather });
      const running = bench.run();
      const clients = Array.from({ length: CLIENTS }, async (_, index) => {
        const store = await bench.open();
        const sessionId = `s${index}`;
        const request = { sessionId, holderId: sessionId, ttlMs: TTL_MS, limitMs: LIMIT_MS };
        // Retry until the session is open: the history is only about grants.
        while (
          !(await store.openSession(request).then(
            () => true,
            () => nextTurn(false),
          ))
        );
        return runClient(store, bench, chance.stream(sessionId), sessionId);
      });
      const history = (await Promise.all(clients)).flat();
      bench.stop();
      await running;
      answered += history.filter(({ answer }) => answer !== undefined).length;
      lost += history.filter(({ answer }) => answer === undefined).length;
      const checked = name === "zookeeper" ? onlyGrants(history) : history;
      expect(linearizability(leaseSpec, checked), `seed ${seed}`).toBe("yes");
    }
    expect(answered).toBeGreaterThan(400);
    // SQLite has no network that could lose a message.
    if (name !== "sqlite") expect(lost).toBeGreaterThan(50);
  });
});
