// Goal: a bounded guard rejects a token that no store has granted, queries the store once per term,
// and admits nothing if the store does not answer. Method: real leases on the memory store and on
// SQLite; guards in memory, in SQLite and for HTTP; an issuer that counts its queries or fails. The
// data is read from the wrapped guard.

import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, expectTypeOf, test } from "vitest";
import { loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { connect } from "../../../src/connect.ts";
import type { EtcdGuard } from "../../../src/guards/etcd/index.ts";
import { type FileGuard, fileGuard } from "../../../src/guards/file/index.ts";
import { httpGuard } from "../../../src/guards/http/index.ts";
import { type MemoryGuard, memoryGuard } from "../../../src/guards/memory/index.ts";
import type { PostgresGuard } from "../../../src/guards/postgres/index.ts";
import { boundedBy, type TokenIssuer } from "../../../src/guards/proof/bounded.ts";
import { type RedisGuard, redisGuard } from "../../../src/guards/redis/index.ts";
import {
  type SqliteDatabase,
  type SqliteGuard,
  sqliteGuard,
} from "../../../src/guards/sqlite/index.ts";
import type { ZooKeeperGuard } from "../../../src/guards/zookeeper/index.ts";
import { StoreUnavailableError, type Tenure } from "../../../src/index.ts";
import { listen, plain, put } from "../../support/guards/http-services.ts";

const MAX = 2n ** 127n - 1n;
const source = (token: bigint, resource = "ledger") => ({ resource, token });
const notHeld = { code: "UNTRUSTED_TOKEN", reason: "notHeld", resource: "ledger" };

const hang = (): Promise<never> => new Promise(() => undefined);

/** Wraps a Tenure and counts its reads. */
function counting(tenure: Tenure): TokenIssuer & { asked: number } {
  const issuer = {
    asked: 0,
    read: (...args: Parameters<TokenIssuer["read"]>) => {
      issuer.asked += 1;
      return tenure.read(...args);
    },
  };
  return issuer;
}

describe("a bounded guard in memory", () => {
  test("S2: a token that was never granted has no effect, and the holder can write", async () => {
    await using tenure = await connect("memory:");
    const inner = memoryGuard();
    const guard = boundedBy(inner, tenure);
    const lease = await tenure.acquire("ledger", { guards: [guard] });
    await expect(guard.advance(source(MAX))).rejects.toMatchObject(notHeld);
    await expect(guard.advance(source(lease.token + 1n))).rejects.toMatchObject(notHeld);
    const written: string[] = [];
    expect(() => guard.write(source(MAX), () => written.push("poison"))).toThrow(
      expect.objectContaining(notHeld),
    );
    expect(inner.highest("ledger")).toBe(lease.token);
    expect(guard.write(lease, () => written.push("kept"))).toBe(1);
    expect(written).toEqual(["kept"]);
  });

  test("no token is admitted while the resource is free, not even one that was granted before", async () => {
    await using tenure = await connect("memory:");
    const inner = memoryGuard();
    const guard = boundedBy(inner, tenure);
    const { token } = await tenure.withLease("ledger", async (lease) => lease);
    for (const each of [1n, token, MAX])
      await expect(guard.advance(source(each))).rejects.toMatchObject(notHeld);
    expect(inner.highest("ledger")).toBeUndefined();
  });

  test("queries the store once per term, and lower tokens are stale", async () => {
    await using tenure = await connect("memory:");
    const issuer = counting(tenure);
    const guard = boundedBy(memoryGuard(), issuer);
    const lease = await tenure.acquire("ledger", { guards: [guard] });
    for (let index = 0; index < 100; index += 1) {
      guard.write(lease, () => undefined);
      await guard.advance(lease);
    }
    expect(issuer.asked).toBe(1);
    await lease.release();
    const next = await tenure.acquire("ledger", { guards: [guard] });
    expect(issuer.asked).toBe(2);
    expect(() => guard.write(source(lease.token), () => undefined)).toThrow(
      expect.objectContaining({ code: "STALE_TOKEN", highest: next.token }),
    );
    expect(issuer.asked).toBe(2);
  });

  test("S7: without an answer of the store, no token is admitted, and the error says that nothing was written", async () => {
    const inner = memoryGuard();
    const failing: TokenIssuer = {
      read: () => Promise.reject(new StoreUnavailableError("cut off", { applied: "unknown" })),
    };
    const guard = boundedBy(inner, failing);
    await expect(guard.advance(source(1n))).rejects.toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
      retryable: true,
      resource: "ledger",
    });
    expect(() => guard.write(source(1n), () => undefined)).toThrow("Advance the guard first");
    expect(inner.highest("ledger")).toBeUndefined();
  });

  test("inside lease.run() the lease of the right resource is used and verified", async () => {
    await using tenure = await connect("memory:");
    const inner = memoryGuard({ resource: "ledger" });
    const guard = boundedBy(inner, tenure, { resource: "ledger" });
    const [ledger, other] = [await tenure.acquire("ledger"), await tenure.acquire("other")];
    const both = (act: () => unknown) => ledger.run(() => other.run(async () => act()));
    await expect(both(() => guard.write(() => "early"))).rejects.toMatchObject(notHeld);
    await both(() => guard.advance());
    expect(await both(() => guard.write(() => "found"))).toBe("found");
    expect(inner.highest("ledger")).toBe(ledger.token);
    await expect(guard.advance(other)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
  });

  test("a missing or invalid lease is rejected as by the wrapped guard", async () => {
    await using tenure = await connect("memory:");
    const guard = boundedBy(memoryGuard(), tenure);
    const bad = { code: "INVALID_ARGUMENT" };
    expect(() => guard.write(() => undefined)).toThrow(expect.objectContaining(bad));
    expect(() => guard.write({ resource: "ledger", token: 7 } as never, () => undefined)).toThrow(
      expect.objectContaining(bad),
    );
    await expect(guard.advance()).rejects.toMatchObject(bad);
    expect(() => boundedBy({} as never, tenure)).toThrow("needs a guard first");
    expect(() => boundedBy(memoryGuard(), {} as never)).toThrow(
      "the Tenure that grants the leases",
    );
    expectTypeOf(guard.write).toEqualTypeOf<MemoryGuard["write"]>();
    expectTypeOf(guard.advance).returns.resolves.toBeVoid();
  });
});

describe("the methods of a bounded guard", () => {
  type Writes<G> = Exclude<
    keyof G,
    "advance" | "highest" | "close" | "writeMethods" | typeof Symbol.asyncDispose
  >;
  type Listed<G extends { readonly writeMethods: readonly unknown[] }> = G["writeMethods"][number];

  test("every guard lists all of its methods that write", () => {
    expectTypeOf<Listed<MemoryGuard>>().toEqualTypeOf<Writes<MemoryGuard>>();
    type Sqlite = SqliteGuard<SqliteDatabase>;
    expectTypeOf<Listed<Sqlite>>().toEqualTypeOf<Writes<Sqlite>>();
    expectTypeOf<Listed<PostgresGuard<unknown>>>().toEqualTypeOf<Writes<PostgresGuard<unknown>>>();
    expectTypeOf<Listed<RedisGuard>>().toEqualTypeOf<Writes<RedisGuard>>();
    expectTypeOf<Listed<EtcdGuard>>().toEqualTypeOf<Writes<EtcdGuard>>();
    expectTypeOf<Listed<ZooKeeperGuard>>().toEqualTypeOf<Writes<ZooKeeperGuard>>();
    expectTypeOf<Listed<FileGuard>>().toEqualTypeOf<Writes<FileGuard>>();
    const client = { isCluster: false, evalsha: hang, eval: hang, get: hang };
    const redis = redisGuard(client);
    expect(new Set<unknown>(redis.writeMethods)).toEqual(
      new Set(Object.keys(redis).filter((key) => !/^(advance|highest|writeMethods)$/.test(key))),
    );
  });

  test("only listed methods are present, so none can write past the bound", () => {
    const own = { ...memoryGuard(), writeMethods: ["write"] as const, unlisted: () => undefined };
    const guard = boundedBy(own, { read: hang });
    expect(Object.keys(guard).sort()).toEqual(["advance", "highest", "write", "writeMethods"]);
    expectTypeOf(guard).not.toHaveProperty("unlisted");
  });

  test("close() and asyncDispose reach the wrapped guard", async () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-bounded-"));
    const inner = fileGuard(join(folder, "state.json"));
    const guard = boundedBy(inner, { read: hang });
    await guard.close();
    await guard[Symbol.asyncDispose]();
    await expect(inner.highest("ledger")).rejects.toMatchObject({ code: "CLOSED" });
    rmSync(folder, { recursive: true, force: true });
  });
});

test("S2: in SQLite, a token that was never granted is rejected, and nothing is written", async () => {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bounded-"));
  const tenure = await connect(`sqlite:${join(folder, "leases.db")}`);
  const database = (await loadDriver()).open(join(folder, "data.db"));
  try {
    database.exec("CREATE TABLE entry (text TEXT)");
    const insert = (text: string) => () =>
      database.prepare("INSERT INTO entry VALUES (?)").run(text);
    const inner = sqliteGuard(database);
    const guard = boundedBy(inner, tenure);
    const lease = await tenure.acquire("ledger", { guards: [guard] });
    await expect(guard.advance(source(MAX))).rejects.toMatchObject(notHeld);
    expect(() => guard.transaction(source(MAX), insert("poison"))).toThrow(
      expect.objectContaining(notHeld),
    );
    guard.transaction(lease, insert("kept"));
    expect(inner.highest("ledger")).toBe(lease.token);
    const rows = database.prepare("SELECT text FROM entry").all();
    expect(rows.map((row) => row.text)).toEqual(["kept"]);
  } finally {
    await tenure.close();
    database.close();
    rmSync(folder, { recursive: true, force: true });
  }
});

test("S2: a service with a bounded guard answers a token that was never granted with 401", async () => {
  await using tenure = await connect("memory:");
  const inner = memoryGuard();
  let served = 0;
  const fence = httpGuard({ guard: boundedBy(inner, tenure), resource: "ledger" });
  const url = await listen(
    createServer(
      fence.guarded(async (_request, response) => {
        served += 1;
        response.end();
      }),
    ),
  );
  const lease = await tenure.acquire("ledger");
  const poison = await put(url, plain(MAX, "ledger"));
  expect(poison.status).toBe(401);
  expect(await poison.json()).toMatchObject({
    type: "urn:tenure:token-untrusted",
    reason: "notHeld",
  });
  expect((await put(url, plain(lease.token, "ledger"))).status).toBe(200);
  expect([served, inner.highest("ledger")]).toEqual([1, lease.token]);
});
