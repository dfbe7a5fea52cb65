// Goal: a lease of a memory store emits one warning per process when it is used with a guard whose
// tokens outlive the process, because two processes could hold the same lease. Method: every guard
// is advanced with a source that reports the call; then a real Tenure on memory: advances real
// guards, and the warnings are counted.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Redis } from "ioredis";
import pg from "pg";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { onLastingGuard } from "../../src/async/lasting-guard.ts";
import { type Driver, loadDriver } from "../../src/clients/sqlite/driver.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { fileGuard } from "../../src/guards/file/index.ts";
import { memoryGuard } from "../../src/guards/memory/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { boundedBy } from "../../src/guards/proof/bounded.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import { connect } from "../../src/index.ts";

const folder = mkdtempSync(join(tmpdir(), "tenure-lasting-"));
let driver: Driver;
beforeAll(async () => {
  driver = await loadDriver();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function openSqlite(file: string): ReturnType<Driver["open"]> {
  const database = driver.open(file);
  onTestFinished(() => database.close());
  return database;
}

test("every guard whose tokens outlive the process notifies the lease before it uses the resource", async () => {
  const stopped = new Error("stopped before anything was sent");
  const source = { resource: "ledger", token: 1n };
  onLastingGuard(source, () => {
    throw stopped;
  });
  const onDisk = sqliteGuard(openSqlite(join(folder, "one.db")));
  const holder = { read: async () => ({ holder: { token: 1n } }) };
  const lasting = [
    onDisk,
    boundedBy(onDisk, holder),
    fileGuard(join(folder, "state.json")),
    postgresGuard(new pg.Pool()),
    redisGuard(new Redis({ lazyConnect: true })),
    etcdGuard("etcd://127.0.0.1:1"),
    zookeeperGuard("zookeeper://127.0.0.1:1"),
  ];
  for (const guard of lasting)
    await expect((async () => guard.advance(source))()).rejects.toBe(stopped);
  expect(() => onDisk.transaction(source, () => undefined)).toThrow(stopped);
  memoryGuard().advance(source);
  sqliteGuard(openSqlite(":memory:")).advance(source);
});

test("a lease of a memory store emits one warning per process, and one of a shared store none", async () => {
  const warnings: Error[] = [];
  const listen = (warning: Error): void => void warnings.push(warning);
  process.on("warning", listen);
  onTestFinished(() => void process.off("warning", listen));
  const ours = async (): Promise<string[]> => {
    await nextTurn();
    return warnings.filter(({ name }) => name === "TenureWarning").map(({ message }) => message);
  };
  const file = fileGuard(join(folder, "two.json"));
  onTestFinished(() => file.close());
  const ledger = sqliteGuard(openSqlite(join(folder, "two.db")));

  const shared = await connect(`sqlite:${join(folder, "store.db")}`);
  await shared.withLease("ledger", { guards: [ledger, file] }, () => undefined);
  await shared.close();
  const alone = await connect("memory:");
  await alone.withLease("other", { guards: [memoryGuard()] }, () => undefined);
  expect(await ours()).toEqual([]);

  await alone.withLease("first", { guards: [ledger] }, () => ledger.transaction(() => undefined));
  await alone.withLease("second", { guards: [file] }, () => file.replace("x"));
  await alone.close();
  const again = await connect("memory:");
  await again.withLease("third", { guards: [ledger] }, () => undefined);
  await again.close();
  expect(await ours()).toEqual([
    expect.stringMatching(/lease of a memory store.*two processes.*sqlite:\.\/tenure\.db/),
  ]);
});
