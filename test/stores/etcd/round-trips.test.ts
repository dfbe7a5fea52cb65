// Goal: a grant, a busy reply and a release take one round trip each, a renewal one message and one
// read for any number of leases, and a release does not wake all waiters. Method: a user-supplied
// transport that counts what is sent, on a real server.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, onTestFinished, test } from "vitest";
import { Http2Transport } from "../../../src/clients/etcd/http2-transport.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { type EtcdTransport, etcdStore } from "../../../src/stores/etcd/index.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { useServer } from "../../servers/use-server.ts";
import { holdAndQueue, newPrefix } from "../../support/stores/etcd-holders.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";

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

async function counted(prefix: string): Promise<{ store: Store; transport: Counting }> {
  const transport = new Counting();
  const store = await etcdStore({ client: transport, prefix })(systemParts());
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
    expect(queued).toEqual(["Txn", { kind: "busy", holderId: "one" }]);
    const waiter = { ...session, resource: "r", attempt: "one.3" };
    expect((await trips(transport, () => store.withdraw(waiter)))[0]).toBe("Txn");
    const token = granted.kind === "granted" ? granted.token : 0n;
    const release = { ...session, resource: "r", token };
    expect(await trips(transport, () => store.release(release))).toEqual([
      "Txn",
      { kind: "released" },
    ]);
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
    expect(renewal).toEqual(["LeaseKeepAlive Range", { kind: "renewed", ttlMs: 60_000, gone: [] }]);
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
    expect(renewal).toEqual(["LeaseKeepAlive Txn", { kind: "renewed", ttlMs: 60_000, gone: [] }]);
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

describe("waiting", () => {
  test("L2: a release between the check and the start of the watch is not missed", async () => {
    const prefix = newPrefix();
    const { store, transport } = await counted(prefix);
    const { wait, release } = await holdAndQueue((await counted(prefix)).store, store);
    let open: (value: unknown) => void = () => undefined;
    transport.gate = new Promise((resolve) => {
      open = resolve;
    });
    transport.sent = [];
    const waiting = wait();
    const hasLooked = async (): Promise<boolean> => transport.sent.includes("Watch");
    await until("it has checked and wants to watch", hasLooked, LIMIT_MS);
    await release();
    const stopwatch = startStopwatch();
    open(undefined);
    await waiting;
    expect(stopwatch.elapsedMs()).toBeLessThan(5_000);
    expect(transport.sent.filter((name) => name === "Txn")).toHaveLength(2);
  });

  test("a waiter that may overtake may not do so after the resource was held again, and no waiter loses its position", async () => {
    const { store } = await counted(newPrefix());
    const ask = (name: string): ReturnType<Store["grant"]> =>
      store.grant({
        sessionId: name,
        holderId: name,
        attempt: `${name}.1`,
        resource: "r",
        queue: true,
        limitMs: LIMIT_MS,
      });
    const release = (name: string, token: bigint): Promise<unknown> =>
      store.release({ sessionId: name, resource: "r", token, limitMs: LIMIT_MS });
    for (const name of ["holder", "stuck", "second", "third"]) await open(store, name);
    const held = await ask("holder");
    for (const name of ["stuck", "second", "third"]) expect((await ask(name)).kind).toBe("busy");
    const { signal } = new AbortController();
    const turns = ["second", "third"].map((name) =>
      waitUntilFree(store, {
        sessionId: name,
        attempt: `${name}.1`,
        resource: "r",
        limitMs: LIMIT_MS,
        signal,
      }),
    );
    await release("holder", held.kind === "granted" ? held.token : 0n);
    // The first in the queue lets its head start pass, so both of the others may overtake it.
    await Promise.all(turns);
    const overtaking = await ask("second");
    expect(overtaking.kind).toBe("granted");
    await release("second", overtaking.kind === "granted" ? overtaking.token : 0n);
    expect((await ask("third")).kind).toBe("busy");
    expect((await ask("stuck")).kind).toBe("granted");
    // The queue entry that was overtaken ended with its grant, so the third is first now.
    await store.endSession({ sessionId: "stuck", limitMs: LIMIT_MS });
    expect((await ask("third")).kind).toBe("granted");
  });

  test("twenty waiters in separate processes are served in order, and only the next one sends requests", async () => {
    const prefix = newPrefix();
    const WAITERS = 20;
    const clients = await Promise.all(Array.from({ length: WAITERS }, () => counted(prefix)));
    const holder = await counted(prefix);
    const ask = (store: Store, sessionId: string): ReturnType<Store["grant"]> =>
      store.grant({
        sessionId,
        holderId: sessionId,
        attempt: `${sessionId}.1`,
        resource: "r",
        queue: true,
        limitMs: LIMIT_MS,
      });
    await open(holder.store, "holder");
    const held = await ask(holder.store, "holder");
    const { signal } = new AbortController();
    const served: string[] = [];
    const waits: Promise<void>[] = [];
    for (const [index, { store }] of clients.entries()) {
      const sessionId = `s${index}`;
      await open(store, sessionId);
      expect((await ask(store, sessionId)).kind).toBe("busy");
      const wait = { sessionId, attempt: `${sessionId}.1`, resource: "r", limitMs: LIMIT_MS };
      const serve = async (): Promise<void> => {
        for (;;) {
          await waitUntilFree(store, { ...wait, signal });
          const outcome = await ask(store, sessionId);
          if (outcome.kind !== "granted") continue;
          served.push(sessionId);
          await store.release({ ...wait, token: outcome.token });
          return;
        }
      };
      waits.push(serve());
    }
    // By now each has made its first check and watches.
    await sleep(1_000);
    for (const { transport } of clients) transport.sent = [];
    const token = held.kind === "granted" ? held.token : 0n;
    const release = { sessionId: "holder", resource: "r", token, limitMs: LIMIT_MS };
    await holder.store.release(release);
    await Promise.all(waits);
    expect(served).toEqual(clients.map((_, index) => `s${index}`));
    const requests = clients.flatMap(({ transport }) => transport.sent);
    const transactions = requests.filter((name) => name === "Txn").length;
    // A grant and a release for each. On a busy machine a head start may run out, and then the
    // waiter after it sends a request too.
    expect(transactions).toBeGreaterThanOrEqual(2 * WAITERS);
    expect(transactions).toBeLessThan(3 * WAITERS);
  });
});
