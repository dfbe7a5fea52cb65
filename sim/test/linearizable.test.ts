// Goal: the search tells linearizable histories from others, and the stores' models are
// linearizable under a bad network. Method: histories known to be good and bad; then clients that
// ask at random over a network that loses and delays. Not one that repeats: a request that is
// carried out twice is not one request, whatever it answers.
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

function grantOf(session: string, attempt = `${session}.1`): LeaseRequest {
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
  "one behind the other": [
    op(grantOf("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(grantOf("b"), 4, 5, yes(2n)),
  ],
  "overlapping requests in another order than they were sent": [
    op(grantOf("a"), 0, 10, { kind: "busy" }),
    op(grantOf("b"), 1, 9, yes(1n)),
  ],
  "a grant without an answer that a read has seen": [
    op(grantOf("a"), 0),
    op(read, 5, 6, seen(7n)),
    op(grantOf("a"), 7, 8, yes(7n)),
  ],
  "a release without an answer that took effect much later": [
    op(grantOf("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2),
    op(grantOf("b"), 3, 4, { kind: "busy" }),
    op(grantOf("b", "b.2"), 5, 6, yes(2n)),
  ],
  "a request without an answer that never took effect": [
    op(grantOf("a"), 0),
    op(read, 5, 6, seen(undefined)),
    op(grantOf("b"), 7, 8, yes(1n)),
  ],
};

const BAD: Record<string, Asked[]> = {
  "two grants of one resource": [op(grantOf("a"), 0, 1, yes(1n)), op(grantOf("b"), 2, 3, yes(2n))],
  "two grants at the same time": [
    op(grantOf("a"), 0, 10, yes(1n)),
    op(grantOf("b"), 0, 10, yes(2n)),
  ],
  "a token that falls": [
    op(grantOf("a"), 0, 1, yes(5n)),
    op({ do: "release", session: "a", token: 5n }, 2, 3, { kind: "released" }),
    op(grantOf("b"), 4, 5, yes(4n)),
  ],
  "a read of the past": [op(grantOf("a"), 0, 1, yes(1n)), op(read, 2, 3, seen(undefined))],
  "busy although free": [
    op(grantOf("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(grantOf("b"), 4, 5, { kind: "busy" }),
  ],
  "a release that frees a successor": [
    op(grantOf("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(grantOf("b"), 4, 5, yes(2n)),
    op({ do: "release", session: "a", token: 1n }, 6, 7, { kind: "released" }),
  ],
  "an ended attempt that is granted again": [
    op(grantOf("a"), 0, 1, yes(1n)),
    op({ do: "release", session: "a", token: 1n }, 2, 3, { kind: "released" }),
    op(grantOf("a"), 4, 5, yes(2n)),
  ],
};

describe("the search", () => {
  test.each(Object.entries(GOOD))("takes %s", (_, history) => {
    expect(linearizability(leaseSpec, history)).toBe("yes");
  });

  test.each(Object.entries(BAD))("refuses %s", (_, history) => {
    expect(linearizability(leaseSpec, history)).toBe("no");
  });

  test("says that it does not know when it would take too long", () => {
    const history = GOOD["one behind the other"] ?? [];
    expect(linearizability(leaseSpec, history, 1)).toBe("unknown");
  });
});

const CLIENTS = 3;
const REQUESTS = 9;
const TTL_MS = 600_000;
const LIMIT_MS = 400;

/** One client: asks at random, each request once, and writes down what it heard. */
async function wander(
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
      // "no" is a promise: such a request is left out, and if it was carried out the history shows
      // it.
      if (error.applied === "unknown") history.push({ request, sentAt });
      else await nextTurn(undefined);
    }
  }
  return history;
}

/** A store that is not connected says so at once: who asks on and on must let the world go on. */
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
  if (outcome.kind === "gone") throw new Error("The session cannot be gone.");
  return outcome.kind === "granted" ? outcome : { kind: outcome.kind };
}

/**
 * On ZooKeeper whoever only tries has a place for a moment, also when it is refused: others may see
 * it and be refused for it (docs/stores/zookeeper.md, Limits). So what is judged there is who was
 * granted, and how that ended.
 */
function withoutPassers(history: readonly Asked[]): Asked[] {
  const values = history.map(({ answer }) => answer?.value);
  const tokens = new Set(values.map((value) => (value?.kind === "granted" ? value.token : 0n)));
  return history.filter(({ request, answer }) => {
    if (request.do === "read" || answer?.value.kind === "busy") return false;
    return !("token" in request) || tokens.has(request.token);
  });
}

describe.each(MODEL_NAMES)("the model of %s", (name) => {
  test("is linearizable when requests and answers get lost and come late", async () => {
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
        // Until it is known to be there: the history is about grants.
        while (
          !(await store.openSession(request).then(
            () => true,
            () => nextTurn(false),
          ))
        );
        return wander(store, bench, chance.stream(sessionId), sessionId);
      });
      const history = (await Promise.all(clients)).flat();
      bench.stop();
      await running;
      answered += history.filter(({ answer }) => answer !== undefined).length;
      lost += history.filter(({ answer }) => answer === undefined).length;
      const judged = name === "zookeeper" ? withoutPassers(history) : history;
      expect(linearizability(leaseSpec, judged), `seed ${seed}`).toBe("yes");
    }
    expect(answered).toBeGreaterThan(400);
    // Between a program and its own disk no message gets lost.
    if (name !== "sqlite") expect(lost).toBeGreaterThan(50);
  });
});
