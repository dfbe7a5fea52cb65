// Goal: an option with an unknown name is rejected everywhere in the public API, in plain
// JavaScript too, and the message names the nearest known option. Method: every function that takes
// options is called with one misspelled name. The lists of known names are typed by the options
// themselves, so the compiler reports a list that is out of date.
import { generateKeyPairSync } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Connection, loadDriver } from "../../src/clients/sqlite/driver.ts";
import { checkOptionNames, type OptionNames } from "../../src/core/options.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { fileGuard } from "../../src/guards/file/index.ts";
import { fencedFetch, httpGuard } from "../../src/guards/http/index.ts";
import { memoryGuard } from "../../src/guards/memory/index.ts";
import * as postgresGuards from "../../src/guards/postgres/index.ts";
import { boundedBy } from "../../src/guards/proof/bounded.ts";
import { signer, verifier } from "../../src/guards/proof/signed.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import * as sqliteGuards from "../../src/guards/sqlite/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import {
  connect,
  InvalidArgumentError,
  onShutdown,
  planTiming,
  type Tenure,
} from "../../src/index.ts";
import { oncePerFire } from "../../src/schedulers/croner/index.ts";
import { OncePerFire, TenureModule } from "../../src/schedulers/nestjs/index.ts";
import { nodeCronCoordinator } from "../../src/schedulers/node-cron/index.ts";
import { etcdStore } from "../../src/stores/etcd/index.ts";
import { migrationSql, postgresStore } from "../../src/stores/postgres/index.ts";
import { redisStore } from "../../src/stores/redis/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { zookeeperStore } from "../../src/stores/zookeeper/index.ts";

let tenure: Tenure;
let database: Connection;
const pool = new pg.Pool();
const client = new Redis({ lazyConnect: true });
const { privateKey, publicKey } = generateKeyPairSync("ed25519");
const source = { resource: "ledger", token: 1n };
const nothing = (): void => undefined;

beforeAll(async () => {
  tenure = await connect("memory:");
  database = (await loadDriver()).open(":memory:");
});
afterAll(async () => {
  await tenure.close();
  database.close();
  await pool.end();
});

/** The name of the call, invalid options, the option that was meant, and the call itself. */
type Case = readonly [
  call: string,
  given: Record<string, unknown>,
  meant: string,
  act: (options: never) => unknown,
];

const election = (): ReturnType<Tenure["election"]> => tenure.election("e", { lead: nothing });

const leases: readonly Case[] = [
  ["connect()", { holderID: "me" }, "holderId", (o) => connect("memory:", o)],
  ["connect() `defaults`", { ttl: 1 }, "ttlMs", (o) => connect("memory:", { defaults: o })],
  ["acquire()", { ttl: 3_000 }, "ttlMs", (o) => tenure.acquire("a", o)],
  ["acquire()", { guard: [] }, "guards", (o) => tenure.acquire("a", o)],
  ["acquire()", { waitMS: 1 }, "waitMs", (o) => tenure.acquire("a", o)],
  ["tryAcquire()", { TTL: 3_000 }, "ttlMs", (o) => tenure.tryAcquire("a", o)],
  ["withLease()", { wait: 1 }, "waitMs", (o) => tenure.withLease("a", o, nothing)],
  ["read()", { consistancy: "stale" }, "consistency", (o) => tenure.read("a", o)],
  ["watch()", { signl: 1 }, "signal", (o) => tenure.watch("", o).next()],
  ["close()", { drain: 1 }, "drainMs", (o) => tenure.close(o)],
  ["election()", { lead: nothing, guard: [] }, "guards", (o) => tenure.election("e", o)],
  ["resign()", { wait: 1 }, "waitMs", (o) => election().resign(o)],
  ["stop()", { drain: 1 }, "drainMs", (o) => election().stop(o)],
  ["leader()", { consistancy: 1 }, "consistency", (o) => election().leader(o)],
  ["observe()", { Signal: 1 }, "signal", (o) => election().observe(o).next()],
  ["once()", { windowMs: 1_000, at: 1 }, "atMs", (o) => tenure.once("o", o, nothing)],
  ["oncePer()", { every: 1_000 }, "everyMs", (o) => tenure.oncePer("o", o, nothing)],
  ["planTiming()", { ttl: 3_000 }, "ttlMs", (o) => planTiming(o)],
  ["onShutdown()", { grace: 1 }, "graceMs", (o) => onShutdown(tenure, o)],
  ["release()", { drain: 1 }, "drainMs", (o) => withHeldLease((lease) => lease.release(o))],
  ["handover()", { wait: 0 }, "waitMs", (o) => withHeldLease((lease) => lease.handover(o))],
];

const stores: readonly Case[] = [
  ["sqliteStore()", { file: "x.db", libary: 1 }, "library", sqliteStore],
  ["postgresStore()", { url: "postgres://h/d", prefx: "x" }, "prefix", postgresStore],
  ["migrationSql()", { prefx: "x" }, "prefix", migrationSql],
  ["redisStore()", { url: "redis://h", prefx: "x" }, "prefix", redisStore],
  ["etcdStore()", { url: "etcd://h", prefx: "x" }, "prefix", etcdStore],
  ["zookeeperStore()", { url: "zookeeper://h", prefx: "/x" }, "prefix", zookeeperStore],
];

const ledgerFile = join(tmpdir(), "tenure-options-never-written");
const guards: readonly Case[] = [
  ["memoryGuard()", { resorce: "x" }, "resource", memoryGuard],
  ["sqliteGuard()", { prefx: "x" }, "prefix", (o) => sqliteGuards.sqliteGuard(database, o)],
  [
    "protectTable()",
    { resource: "x", prefx: "y" },
    "prefix",
    (o) => sqliteGuards.protectTable(database, "t", o),
  ],
  ["protectSql()", { resource: "x", prefx: "y" }, "prefix", (o) => sqliteGuards.protectSql("t", o)],
  ["protectedTables()", { tabel: "y" }, "table", (o) => sqliteGuards.protectedTables(database, o)],
  [
    "resetHighest()",
    { highest: 1n, prefx: "y" },
    "prefix",
    (o) => sqliteGuards.resetHighest(database, "r", o),
  ],
  ["postgresGuard()", { idle: 1 }, "idleMs", (o) => postgresGuards.postgresGuard(pool, o)],
  [
    "protectTable()",
    { resource: "x", prefx: "y" },
    "prefix",
    (o) => postgresGuards.protectTable(pool, "t", o),
  ],
  [
    "unprotectTable()",
    { prefx: "y" },
    "prefix",
    (o) => postgresGuards.unprotectTable(pool, "t", o),
  ],
  [
    "protectSql()",
    { resource: "x", prefx: "y" },
    "prefix",
    (o) => postgresGuards.protectSql("t", o),
  ],
  ["unprotectSql()", { prefx: "y" }, "prefix", (o) => postgresGuards.unprotectSql("t", o)],
  ["guardSql()", { rol: "y" }, "role", postgresGuards.guardSql],
  ["removeGuardSql()", { prefx: "y" }, "prefix", postgresGuards.removeGuardSql],
  ["protectedTables()", { tabel: "y" }, "table", (o) => postgresGuards.protectedTables(pool, o)],
  [
    "resetHighest()",
    { highest: 1n, prefx: "y" },
    "prefix",
    (o) => postgresGuards.resetHighest(pool, "r", o),
  ],
  ["redisGuard()", { prefx: "x" }, "prefix", (o) => redisGuard(client, o)],
  ["set()", { ttl: 1 }, "ttlMs", (o) => redisGuard(client).set(source, "k", "v", o)],
  ["script()", { key: [] }, "keys", (o) => redisGuard(client).script(source, "return 1", o)],
  ["etcdGuard()", { limit: 1 }, "limitMs", (o) => etcdGuard("etcd://h:1", o)],
  ["etcdGuard()", { url: "etcd://h", prefx: "x" }, "prefix", (o) => etcdGuard(o)],
  ["zookeeperGuard()", { limit: 1 }, "limitMs", (o) => zookeeperGuard("zookeeper://h:1", o)],
  ["zookeeperGuard()", { url: "zookeeper://h", prefx: "/x" }, "prefix", (o) => zookeeperGuard(o)],
  ["fileGuard()", { wait: 1 }, "waitMs", (o) => fileGuard(ledgerFile, o)],
  ["httpGuard()", { guard: memoryGuard(), resource: "x", signdBy: 1 }, "signedBy", httpGuard],
  ["fencedFetch()", { sing: 1 }, "sign", (o) => fencedFetch(fetch, o)],
  ["boundedBy()", { resorce: "x" }, "resource", (o) => boundedBy(memoryGuard(), tenure, o)],
  ["signer()", { keyId: "k", privateKey, clok: 1 }, "clock", signer],
  [
    "sign()",
    { expiresIn: 1 },
    "expiresInMs",
    (o) => signer({ keyId: "k", privateKey }).sign(source, o),
  ],
  ["verifier()", { keys: { k: publicKey }, tolerance: 1 }, "toleranceMs", verifier],
];

const adapters: readonly Case[] = [
  ["nodeCronCoordinator()", { prefx: "x" }, "prefix", (o) => nodeCronCoordinator(tenure, o)],
  ["oncePerFire()", { onskip: 1 }, "onSkip", (o) => oncePerFire(tenure, "k", o, nothing)],
  ["@OncePerFire()", { onskip: 1 }, "onSkip", (o) => OncePerFire("k", o)],
  ["TenureModule", { store: "memory:", holder: "x" }, "holderId", (o) => TenureModule.forRoot(o)],
  [
    "TenureModule",
    { useFactory: nothing, imprts: [] },
    "imports",
    (o) => TenureModule.forRootAsync(o),
  ],
];

async function withHeldLease(
  act: (lease: Awaited<ReturnType<Tenure["acquire"]>>) => unknown,
): Promise<void> {
  const lease = await tenure.acquire("held");
  try {
    await act(lease);
  } finally {
    await lease.release();
  }
}

describe("an unknown option is rejected with the nearest known name", () => {
  for (const [call, given, meant, act] of [...leases, ...stores, ...guards, ...adapters]) {
    const wrong = Object.keys(given).at(-1) ?? "";
    test(`${call}: \`${wrong}\` instead of \`${meant}\``, async () => {
      const error = await catchError(() => act(given as never));
      expect(error).toBeInstanceOf(InvalidArgumentError);
      expect((error as Error).message).toBe(
        `Unknown option \`${wrong}\` of ${call}. Did you mean \`${meant}\`?`,
      );
    });
  }

  test("a name that resembles no option is rejected with the list of known options", async () => {
    const error = await catchError(() => tenure.tryAcquire("a", { waitMs: 5 } as never));
    expect((error as Error).message).toBe(
      "Unknown option `waitMs` of tryAcquire(). Known are `ttlMs`, `renewEveryMs`, `clockErrorMs`, `roundTripMs`, `marginMs`, " +
        "`whileInDoubt`, `value`, `guards`, `slots`, `reentrant`.",
    );
  });

  test("options that are not an object are rejected; an option with the value undefined is ignored", async () => {
    for (const given of ["10s", 5, null, nothing]) {
      const error = await catchError(() => tenure.acquire("a", given as never));
      expect((error as Error).message).toMatch(/^acquire\(\) takes its options as an object, got /);
    }
    const lease = await tenure.acquire("a", { ttlMs: undefined, unheardOf: undefined } as object);
    await lease.release();
  });

  test("names from Object.prototype are rejected, and internal options are not suggested", () => {
    const known: OptionNames<{ onAsk?: 1; one?: 1 }> = { onAsk: "internal", one: true };
    const of = (given: object) => () => checkOptionNames("call()", given, known);
    expect(of({ constructor: 1 })).toThrow(
      "Unknown option `constructor` of call(). Known are `one`.",
    );
    expect(of({ toString: 1 })).toThrow(/Unknown option `toString`/);
    expect(of({ onask: 1 })).toThrow("Unknown option `onask` of call(). Known are `one`.");
    expect(of({ onAsk: 1, one: 1 })).not.toThrow();
  });
});

async function catchError(act: () => unknown): Promise<unknown> {
  try {
    await act();
    return undefined;
  } catch (error) {
    return error;
  }
}
