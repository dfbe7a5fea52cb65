// Goal: a grant, a busy reply and a release take one round trip each, a renewal two for any number
// of leases, and a handoff one notification. Method: a user-supplied transport that counts what is
// sent, on a real server.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { Http2Transport } from "../../../src/clients/etcd/http2-transport.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store, StoreParts } from "../../../src/stores/contract.ts";
import { type EtcdTransport, etcdStore } from "../../../src/stores/etcd/index.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { useServer } from "../../servers/use-server.ts";
import { newPrefix } from "../../support/stores/etcd-holders.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { slowParts } from "../../support/stores/slow-timers.ts";

const etcd = useServer(startEtcd, { fastElections: true });
const LIMIT_MS = 5_000;

/** Records every call and every message on a stream, by the last part of its path. */
class Counting implements EtcdTransport {
  readonly place = "counted";
  sent: string[] = [];
  isClosed = false;
  /** Messages on a stream are sent when this resolves. */
  gate: Promise<unknown> = Promise.resolve();
  readonly #inner: Http2Transport;

  constructor() {
    const { host, port } = etcd();
    const target = { host, port, tls: undefined, connectMs: LIMIT_MS };
    this.#inner = new Http2Transport(target, systemParts().clock);
  }

  call(...args: Parameters<EtcdTransport["call"]>): ReturnType<EtcdTransport["call"]> {
    this.#count(args[0]);
    return this.#inner.call(...args);
  }

  stream(...args: Parameters<EtcdTransport["stream"]>): ReturnType<EtcdTransport["stream"]> {
    const stream = this.#inner.stream(...args);
    return {
      send: (message) => {
        this.#count(args[0]);
        void this.gate.then(() => stream.send(message));
      },
      cancel: () => stream.cancel(),
    };
  }

  reset(): void {
    this.#inner.reset();
  }

  close(): void {
    this.isClosed = true;
    this.#inner.close();
  }

  #count(path: string): void {
    this.sent.push(path.split("/").at(-1) ?? "");
  }
}

async function counted(
  prefix: string,
  parts: StoreParts = systemParts(),
): Promise<{ store: Store; transport: Counting }> {
  const transport = new Counting();
  const store = await etcdStore({ client: transport, prefix })(parts);
  onTestFinished(() => store.close());
  return { store, transport };
}

async function trips<T>(transport: Counting, request: () => Promise<T>): Promise<[string, T]> {
  transport.sent = [];
  const answer = await request();
  return [transport.sent.join(" "), answer];
}

async function open(store: Store, sessionId: string): Promise<void> {
  await store.openSession({ sessionId, holderId: sessionId, ttlMs: 60_000, limitMs: LIMIT_MS });
}

describe("round trips", () => {
  test("a grant, a busy reply, a queue entry, a release and a withdrawal take one round trip each", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", limitMs: LIMIT_MS };
    const ask = (attempt: string, queue: boolean): ReturnType<Store["grant"]> =>
      store.grant({ ...session, resource: "r", attempt, holderId: "one", queue });
    const [granting, granted] = await trips(transport, () => ask("one.1", true));
    expect([granting, granted.kind]).toEqual(["Txn", "granted"]);
    const refusal = await trips(transport, () => ask("one.2", false));
    expect(refusal).toEqual(["Txn", { kind: "busy", holderId: "one" }]);
    const queued = await trips(transport, () => ask("one.3", true));
    expect(queued).toEqual(["Txn Watch", { kind: "queued", holderId: "one" }]);
    const waiter = { ...session, resource: "r", attempt: "one.3" };
    expect((await trips(transport, () => store.withdraw(waiter)))[0]).toBe("Txn");
    const token = granted.kind === "granted" ? granted.token : 0n;
    const release = { ...session, resource: "r", token };
    expect(await trips(transport, () => store.release(release))).toEqual([
      "Txn",
      { kind: "released" },
    ]);
  });

  test("a grant that follows a release of the same resource shares its transaction", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", resource: "r", limitMs: LIMIT_MS };
    const ask = (attempt: string): ReturnType<Store["grant"]> =>
      store.grant({ ...session, attempt, queue: false });
    const first = await ask("one.1");
    const token = first.kind === "granted" ? first.token : 0n;
    const [sent, [released, second]] = await trips(transport, () =>
      Promise.all([store.release({ ...session, token }), ask("one.2")]),
    );
    expect([sent, released, second.kind]).toEqual(["Txn", { kind: "released" }, "granted"]);
    expect(second.kind === "granted" && second.token > token).toBe(true);
  });

  test("a grant waits for a release of the same resource that is in flight", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", resource: "r", limitMs: LIMIT_MS };
    const ask = (attempt: string): ReturnType<Store["grant"]> =>
      store.grant({ ...session, attempt, queue: false });
    const first = await ask("one.1");
    const token = first.kind === "granted" ? first.token : 0n;
    const [sent, second] = await trips(transport, async () => {
      const releasing = store.release({ ...session, token });
      await new Promise((resolve) => setImmediate(resolve));
      const granted = await ask("one.2");
      expect(await releasing).toEqual({ kind: "released" });
      return granted;
    });
    expect([sent, second.kind]).toEqual(["Txn Txn", "granted"]);
  });

  test("forty concurrent grants take four transactions, and so do their releases", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    const names = Array.from({ length: 40 }, (_, index) => `r${index}`);
    const [granting, granted] = await trips(transport, () =>
      Promise.all(
        names.map((resource) =>
          store.grant({ ...session, resource, attempt: `one.${resource}`, queue: false }),
        ),
      ),
    );
    expect(granting).toBe("Txn Txn Txn Txn");
    const [releasing] = await trips(transport, () =>
      Promise.all(
        granted.map((outcome, index) => {
          if (outcome.kind !== "granted") throw new Error(outcome.kind);
          const { token } = outcome;
          return store.release({ ...session, resource: names[index] ?? "", token });
        }),
      ),
    );
    expect(releasing).toBe("Txn Txn Txn Txn");
  });

  test("a renewal of a hundred leases takes one message and one read", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    const names = Array.from({ length: 100 }, (_, index) => `r${index}`);
    const asked = names.map((resource) =>
      store.grant({ ...session, resource, attempt: `one.${resource}`, queue: false }),
    );
    for (const { kind } of await Promise.all(asked)) expect(kind).toBe("granted");
    const renewal = await trips(transport, () =>
      store.renew({ ...session, withdrawn: [], acknowledged: [] }),
    );
    const nothing = { gone: [], granted: [], wanted: [], waiting: 0 };
    const outcome = { kind: "renewed", ttlMs: 60_000, ...nothing };
    expect(renewal).toEqual(["LeaseKeepAlive Range", outcome]);
  });

  test("a renewal that acknowledges revocations reads and deletes in one transaction", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    const asked = { ...session, resource: "r", attempt: "one.1", queue: false };
    const granted = await store.grant(asked);
    const ref = { resource: "r", token: granted.kind === "granted" ? granted.token : 0n };
    await store.revoke({ ...ref, limitMs: LIMIT_MS });
    const renewal = await trips(transport, () =>
      store.renew({ ...session, withdrawn: [], acknowledged: [ref] }),
    );
    expect(renewal[0]).toBe("LeaseKeepAlive Txn");
    expect(renewal[1]).toMatchObject({ kind: "renewed", ttlMs: 60_000, gone: [] });
  });

  test("a read also queries the lease's remaining time, and closing the store closes the transport", async () => {
    const { store, transport } = await counted(newPrefix());
    await open(store, "one");
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS };
    await store.grant({ ...session, resource: "r", attempt: "one.1", queue: false });
    const question = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await trips(transport, () => store.read(question)))[0]).toBe("Range LeaseTimeToLive");
    const free = { ...question, resource: "free" };
    expect((await trips(transport, () => store.read(free)))[0]).toBe("Range");
    await store.close();
    expect(transport.isClosed).toBe(true);
  });
});

/** A session with its own client, and its only attempt for resource "r". */
async function contender(
  prefix: string,
  sessionId: string,
  parts?: StoreParts,
): Promise<{
  store: Store;
  transport: Counting;
  events: RecordedEvents;
  ask(): ReturnType<Store["grant"]>;
  release(token: bigint): Promise<unknown>;
  /** Resolves with the token when the store reports the grant. */
  granted(): Promise<bigint>;
}> {
  const { store, transport } = await counted(prefix, parts);
  const events = new RecordedEvents();
  const session = { sessionId, holderId: sessionId, resource: "r", limitMs: LIMIT_MS };
  await store.openSession({ ...session, ttlMs: 60_000, events });
  return {
    store,
    transport,
    events,
    ask: () => store.grant({ ...session, attempt: `${sessionId}.1`, queue: true }),
    release: (token) => store.release({ ...session, token }),
    granted: () => events.tokenOf(`${sessionId}.1`),
  };
}

async function take(one: { ask(): ReturnType<Store["grant"]> }): Promise<bigint> {
  const outcome = await one.ask();
  if (outcome.kind !== "granted") throw new Error(outcome.kind);
  return outcome.token;
}

describe("waiting", () => {
  test("L2: a release between the request and the start of the watch is not missed", async () => {
    const prefix = newPrefix();
    const one = await contender(prefix, "one");
    const two = await contender(prefix, "two", slowParts());
    const token = await take(one);
    let open: (value: unknown) => void = () => undefined;
    two.transport.gate = new Promise((resolve) => {
      open = resolve;
    });
    two.transport.sent = [];
    expect((await two.ask()).kind).toBe("queued");
    await one.release(token);
    open(undefined);
    expect(await two.granted()).toBeGreaterThan(token);
    expect(two.transport.sent.slice(0, 3)).toEqual(["Txn", "Watch", "Range"]);
  });

  test("a contended lock costs at most four requests, and two while its watch is open", async () => {
    const prefix = newPrefix();
    const one = await contender(prefix, "one");
    const two = await contender(prefix, "two", slowParts());
    const session = { sessionId: "two", holderId: "two", resource: "r", limitMs: LIMIT_MS };
    const token = await take(one);
    two.transport.sent = [];
    await two.ask();
    await one.release(token);
    const second = await two.granted();
    await two.release(second);
    // The Range covers what was written between the request and the start of the watch.
    expect(two.transport.sent.filter((name) => name !== "Range")).toEqual(["Txn", "Watch", "Txn"]);
    expect(two.transport.sent.length).toBeLessThanOrEqual(4);
    const third = await take({
      ask: () => one.store.grant({ ...session, sessionId: "one", attempt: "one.2", queue: true }),
    });
    two.transport.sent = [];
    await two.store.grant({ ...session, attempt: "two.2", queue: true });
    await one.release(third);
    await until("the second grant", async () => two.events.grants.length === 2, LIMIT_MS);
    await two.release(two.events.grants[1]?.token ?? 0n);
    expect(two.transport.sent).toEqual(["Txn", "Txn"]);
  });

  test("twenty waiters in separate processes are served in order, each with one report and one release", async () => {
    const prefix = newPrefix();
    const holder = await contender(prefix, "holder");
    const held = await take(holder);
    const waiters = [];
    for (let index = 0; index < 20; index += 1) {
      const waiter = await contender(prefix, `s${index}`);
      expect((await waiter.ask()).kind).toBe("queued");
      waiters.push(waiter);
    }
    // By now every watch has begun, and the first waiter has notified the holder.
    await sleep(1_000);
    for (const { transport } of waiters) transport.sent = [];
    const served: number[] = [];
    const serving = waiters.map(async (waiter, index) => {
      const token = await waiter.granted();
      served.push(index);
      await waiter.release(token);
      return token;
    });
    await holder.release(held);
    const tokens = await Promise.all(serving);
    expect(served).toEqual(waiters.map((_, index) => index));
    expect(tokens).toEqual([...tokens].sort((a, b) => Number(a - b)));
    const requests = waiters.flatMap(({ transport }) => transport.sent);
    // A release for each. On a busy machine, a lease may be held long enough for its session to
    // watch its notes, and for the next waiter to notify it.
    expect(requests.filter((name) => name === "Txn").length).toBeLessThan(2 * waiters.length);
    expect(requests.length).toBeLessThan(3 * waiters.length);
    for (const { events } of waiters) expect(events.grants).toHaveLength(1);
  });

  test("a holder is notified of a waiter and of its revocation at once, by one watch for all its leases", async () => {
    const prefix = newPrefix();
    const one = await contender(prefix, "one");
    const two = await contender(prefix, "two");
    one.transport.sent = [];
    const token = await take(one);
    const session = { sessionId: "one", holderId: "one", limitMs: LIMIT_MS, queue: false };
    for (let index = 0; index < 10; index += 1)
      await one.store.grant({ ...session, resource: `other ${index}`, attempt: `one.x${index}` });
    await two.ask();
    const ref = { resource: "r", token };
    await until("the wish", async () => one.events.wishes.length > 0, LIMIT_MS);
    expect(one.events.wishes[0]).toEqual(ref);
    await two.store.revoke({ ...ref, limitMs: LIMIT_MS });
    await until("the loss", async () => one.events.losses.length > 0, LIMIT_MS);
    expect(one.events.losses).toEqual([ref]);
    expect(one.transport.sent.filter((name) => name === "Watch")).toHaveLength(1);
    expect(await two.granted()).toBeGreaterThan(token);
  });

  test("a short lease opens no watch", async () => {
    const one = await contender(newPrefix(), "one", slowParts());
    one.transport.sent = [];
    await one.release(await take(one));
    await sleep(1_500);
    expect(one.transport.sent).toEqual(["Txn", "Txn"]);
  });

  test("L2: a handoff whose notification is lost is reported by the next renewal", async () => {
    const prefix = newPrefix();
    const one = await contender(prefix, "one");
    const two = await contender(prefix, "two");
    const token = await take(one);
    // No message on a stream arrives: there is no watch.
    two.transport.gate = new Promise(() => undefined);
    await two.ask();
    await one.release(token);
    await sleep(100);
    expect(two.events.grants).toEqual([]);
    const renewal = { sessionId: "two", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS };
    const outcome = await two.store.renew(renewal);
    expect(outcome).toMatchObject({ granted: [{ resource: "r", attempt: "two.1" }], waiting: 0 });
  });

  test("a waiter whose key was deleted by another program is not counted as waiting", async () => {
    const prefix = newPrefix();
    const one = await contender(prefix, "one");
    const two = await contender(prefix, "two");
    await take(one);
    await two.ask();
    const key = Buffer.from(`${prefix}l/r\0two.1`).toString("base64");
    await etcd().call("/v3/kv/deleterange", { key });
    const renewal = { sessionId: "two", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS };
    expect(await two.store.renew(renewal)).toMatchObject({ kind: "renewed", waiting: 0 });
    expect((await two.ask()).kind).toBe("queued");
  });
});
