// Goal: holders and waiters keep their guarantees while the network or the server fails. Method:
// real servers behind a proxy that silently loses packets, and real crashes and promotions. Holders
// that are cut off are tested in test/faults/.
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { connect } from "../../../src/connect.ts";
import type { StoreUnavailableError } from "../../../src/core/errors.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { startPostgres, startPostgresPair } from "../../servers/postgres.ts";
import { startProxy, TcpProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

const server = useServer(startPostgres);
const libraries = ["pg", "postgres"] as const;
let schemas = 0;

function newSchema(): string {
  schemas += 1;
  return `cut_${schemas}`;
}

async function openStore(options: PostgresOptions): Promise<Store> {
  return postgresStore(options)(systemParts());
}

async function session(store: Store, sessionId: string, ttlMs = 30_000): Promise<RecordedEvents> {
  const events = new RecordedEvents();
  const holderId = `holder ${sessionId}`;
  await store.openSession({ sessionId, holderId, ttlMs, events, limitMs: 5_000 });
  return events;
}

function asking(sessionId: string, attempt: string, resource = "r", limitMs = 5_000) {
  return { sessionId, holderId: `holder ${sessionId}`, resource, attempt, queue: true, limitMs };
}

async function unavailable(request: Promise<unknown>): Promise<StoreUnavailableError> {
  return request.then(
    () => Promise.reject(new Error("It was answered.")),
    (error: StoreUnavailableError) => error,
  );
}

describe.each(libraries)("a holder cut off silently, through %s", (library) => {
  test("S4: a grant whose reply is lost has an unknown outcome, and repeating the attempt finds it", async () => {
    await using proxy = await startProxy(server());
    const schema = newSchema();
    const store = await openStore({ url: proxy.url, library, prefix: schema });
    await session(store, "s");
    await store.grant(asking("s", "warm", "other"));
    proxy.cut("replies");
    const lost = await unavailable(store.grant(asking("s", "a", "r", 400)));
    expect([lost.code, lost.applied]).toEqual(["STORE_UNAVAILABLE", "unknown"]);
    await proxy.heal();
    const direct = await openStore({ url: server().url, library, prefix: schema });
    const read = { resource: "r", consistency: "linearizable", limitMs: 5_000 } as const;
    let granted: bigint | undefined;
    while (granted === undefined) granted = (await direct.read(read)).holder?.token;
    // Repeating the request takes no second token.
    const again = await store.grant(asking("s", "a"));
    expect(again).toEqual({ kind: "granted", token: granted });
    expect((await direct.read(read)).holder?.token).toBe(granted);
    await Promise.all([store.close(), direct.close()]);
  });

  test("S7: no request hangs: each ends at its limit, and requests succeed soon after the cut", async () => {
    await using proxy = await startProxy(server());
    const store = await openStore({ url: proxy.url, library, prefix: newSchema() });
    await session(store, "s");
    // Many connections are open and idle when the cut happens.
    const read = { resource: "r", consistency: "linearizable", limitMs: 500 } as const;
    await Promise.all(Array.from({ length: 20 }, () => store.read({ ...read, limitMs: 5_000 })));
    // From now on those connections are silently dead, and new ones work.
    proxy.cut();
    proxy.refuse();
    await using fresh = new TcpProxy(server(), proxy.port);
    await fresh.listen();
    const stopwatch = startStopwatch();
    const renewal = { sessionId: "s", withdrawn: [], acknowledged: [], limitMs: 500 };
    await Promise.all([
      unavailable(store.renew(renewal)),
      unavailable(store.grant(asking("s", "a", "r", 500))),
      unavailable(store.read(read)),
    ]);
    expect(stopwatch.elapsedMs()).toBeLessThan(1_500);
    // The other dead connections are not tried one by one.
    expect((await store.renew({ ...renewal, limitMs: 2_000 })).kind).toBe("renewed");
    await store.close();
  });

  test("L2: a waiter whose listening connection was cut is still woken, and notifications work again later", async () => {
    await using proxy = await startProxy(server());
    const schema = newSchema();
    const holder = await openStore({ url: server().url, library, prefix: schema });
    const store = await openStore({
      url: server().url,
      library,
      prefix: schema,
      listen: proxy.url,
    });
    const [, events] = await Promise.all([session(holder, "h"), session(store, "w")]);
    await using fresh = new TcpProxy(server(), proxy.port);
    for (const fault of ["reset", "silent", "none"] as const) {
      const held = await holder.grant(asking("h", `h ${fault}`));
      if (held.kind !== "granted") throw new Error(held.kind);
      const attempt = `w ${fault}`;
      await store.grant(asking("w", attempt));
      // By now the listening connection is open.
      await sleep(300);
      if (fault === "reset") proxy.reset();
      if (fault === "silent") {
        // From now on the connection is silently dead, and a new one works.
        proxy.cut();
        proxy.refuse();
        await fresh.listen();
      }
      const stopwatch = startStopwatch();
      await holder.release({ resource: "r", sessionId: "h", token: held.token, limitMs: 5_000 });
      // A renewal reports what a silent connection misses, and makes the store check it.
      const renewal = { sessionId: "w", withdrawn: [], acknowledged: [], limitMs: 5_000 };
      if (fault === "silent")
        expect(await store.renew(renewal)).toMatchObject({ granted: [{ attempt }] });
      const token = await events.tokenOf(attempt);
      expect(stopwatch.elapsedMs()).toBeLessThan(fault === "silent" ? 4_000 : 1_000);
      await store.release({ resource: "r", sessionId: "w", token, limitMs: 5_000 });
      // The limit of the check, and the time to open another connection.
      if (fault === "silent") await sleep(5_000);
    }
    await Promise.all([holder.close(), store.close()]);
  });
});

describe("a server that fails", () => {
  test("S1, S7: SIGKILL and restart keep leases and tokens, and the holder continues", async () => {
    await using own = await startPostgres({ own: true });
    const tenure = await connect(own.url);
    const other = await connect(own.url);
    const lease = await tenure.acquire("r", { ttlMs: 20_000 });
    await own.kill();
    await expect(other.tryAcquire("r")).rejects.toMatchObject({ code: "STORE_UNAVAILABLE" });
    await own.start();
    expect(await other.tryAcquire("r")).toBeUndefined();
    await lease.confirmed();
    expect(lease.check()).toBe(lease.token);
    await lease.release();
    const next = await other.acquire("r", { waitMs: 5_000 });
    // The server cannot prove that it knows its last token, so a new era starts.
    expect(next.token).toBeGreaterThan(lease.token + 1n);
    await Promise.all([tenure.close(), other.close()]);
  });

  test("S1: a standby is rejected when opened, and once promoted it grants above all tokens of the old primary", async () => {
    await using pair = await startPostgresPair();
    const store = await openStore({ url: pair.primary.url });
    await session(store, "s");
    for (const library of libraries) {
      const refused = openStore({ url: pair.standby.url, library });
      await expect(refused).rejects.toMatchObject({
        code: "STORE_UNUSABLE",
        message: expect.stringContaining("is a standby and cannot grant leases"),
      });
    }
    const tokens: bigint[] = [];
    const cycle = async (from: Store, sessionId: string, attempt: string): Promise<void> => {
      const outcome = await from.grant(asking(sessionId, attempt));
      if (outcome.kind !== "granted") throw new Error(outcome.kind);
      tokens.push(outcome.token);
      const { token } = outcome;
      await from.release({ resource: "r", sessionId, token, limitMs: 5_000 });
    };
    await cycle(store, "s", "seen by the standby");
    const follows = async (): Promise<boolean> =>
      (await pair.standby.sql("SELECT count(*) FROM tenure.lease").catch(() => "")) === "1";
    while (!(await follows())) await sleep(50);
    // From now on the standby misses what the primary grants.
    await pair.standby.stop();
    for (let round = 0; round < 5; round += 1) await cycle(store, "s", `missed ${round}`);
    await store.close();
    await pair.primary.kill();
    await pair.standby.start();
    await pair.promote();
    const promoted = await openStore({ url: pair.standby.url });
    await session(promoted, "t");
    await cycle(promoted, "t", "after");
    await cycle(promoted, "t", "after that");
    await promoted.close();
    const [first = 0n, , , , , last = 0n, after = 0n] = tokens;
    expect(tokens.slice(0, 6)).toEqual([0n, 1n, 2n, 3n, 4n, 5n].map((step) => first + step));
    expect(after).toBeGreaterThan(last);
    expect(tokens.slice(6)).toEqual([after, after + 1n]);
  }, 60_000);
});
