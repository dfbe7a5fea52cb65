// Goal: `tenure guard reset` makes a guard of every kind accept the lower tokens of another store.
// It needs confirmation, resets only the token that it showed, and states the risk. Method: the
// built program on real databases, servers and files, with tokens from SQLite (wall clock) and from
// etcd or ZooKeeper.
import { join } from "node:path";
import { Redis } from "ioredis";
import { afterEach, describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { fileGuard } from "../../src/guards/file/index.ts";
import type { Guard } from "../../src/guards/guard.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import { connect } from "../../src/index.ts";
import { startEtcd } from "../servers/etcd.ts";
import { startPostgres } from "../servers/postgres.ts";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import { useLedgers } from "../support/guards/postgres-guard-harness.ts";
import { userFiles } from "../support/guards/sqlite-guard-files.ts";
import { cliWorlds } from "../support/process/cli.ts";

const world = cliWorlds();
const { newFile, open } = await userFiles();
const postgres = useServer(startPostgres);
const redis = useServer(startRedis);
const etcd = useServer(startEtcd);
const zookeeper = useServer(startZooKeeper);
const newLedger = useLedgers(postgres);

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A guard and its database. `open()` opens the guard as a newly started process would. */
interface Place {
  /** The value of `--database`, and `--guard` if needed. */
  readonly args: string[];
  open(): Guard;
}

const places: Record<string, (folder: string) => Promise<Place>> = {
  SQLite: async () => {
    const file = newFile();
    return { args: [`sqlite:${file}`], open: () => sqliteGuard(open(file)) };
  },
  PostgreSQL: async () => {
    const ledger = await newLedger();
    const { schema } = ledger;
    return {
      args: [postgres().url, "--guard", schema],
      open: () => postgresGuard(ledger.pool(), { prefix: schema }),
    };
  },
  Redis: async () => {
    const client = new Redis(redis().url);
    ends.push(() => client.disconnect());
    const prefix = "{cli-reset}:guard";
    return { args: [redis().url, "--guard", prefix], open: () => redisGuard(client, { prefix }) };
  },
  etcd: async () => ({
    args: [`${etcd().url}/cli-reset`],
    open: () => closeLater(etcdGuard(`${etcd().url}/cli-reset`)),
  }),
  ZooKeeper: async () => ({
    args: [`${zookeeper().url}/cli-reset`],
    open: () => closeLater(zookeeperGuard(`${zookeeper().url}/cli-reset`)),
  }),
  file: async (folder) => ({
    args: ["file:./state.json"],
    open: () => closeLater(fileGuard(join(folder, "state.json"))),
  }),
};

function closeLater<G extends Guard & { close(): Promise<void> }>(guard: G): G {
  ends.push(() => guard.close());
  return guard;
}

describe.each(Object.entries(places))("a guard on %s", (name, make) => {
  test("accepts the lower tokens of etcd or ZooKeeper only after a reset", async () => {
    const here = world();
    const place = await make(here.folder);
    const reset = (...args: string[]) =>
      here.run(["guard", "reset", "payments", "--database", ...place.args, ...args]);
    const old = await connect(`sqlite:${join(here.folder, "old.db")}`);
    const lease = await old.acquire("payments", { guards: [place.open()] });
    await lease.release();
    await old.close();
    const store = name === "etcd" ? zookeeper().url : etcd().url;
    const tenure = await connect(`${store}/cli-reset-store-${name}`);
    ends.push(() => tenure.close());
    const refused = tenure.acquire("payments", { guards: [place.open()] });
    await expect(refused).rejects.toMatchObject({ code: "STALE_TOKEN", highest: lease.token });

    const unconfirmed = await reset();
    expect([unconfirmed.exit.code, unconfirmed.err]).toEqual([
      EXIT.usage,
      expect.stringMatching("--yes"),
    ]);
    const again = tenure.acquire("payments", { guards: [place.open()] });
    await expect(again).rejects.toMatchObject({ code: "STALE_TOKEN" });

    const done = await reset("--yes");
    // An old etcd is warned about.
    const complaints = done.err
      .split("\n")
      .filter((line) => !line.startsWith("TenureWarning: etcd"));
    expect([complaints, done.exit.code]).toEqual([[""], EXIT.ok]);
    expect(done.out).toContain(`payments: it has forgotten token ${lease.token}`);
    expect(done.out).toContain("including a late write of a former holder");
    const next = await tenure.acquire("payments", { guards: [place.open()] });
    expect(await place.open().highest("payments")).toBe(next.token);
    expect(next.token).toBeLessThan(lease.token);

    const json = await reset("--yes", "--json");
    expect([json.exit.code, json.json()]).toEqual([
      EXIT.ok,
      { resource: "payments", highest: String(next.token), reset: true },
    ]);
    const none = await reset("--yes", "--json");
    expect([none.exit.code, none.json()]).toEqual([
      EXIT.no,
      { resource: "payments", reset: false },
    ]);
    expect((await reset("--yes")).out).toBe(
      "No token has been seen for payments; nothing was reset.\n",
    );
    await next.release();
  });
});

test("invalid input is rejected with advice, and nothing is created", async () => {
  const here = world();
  const file = newFile();
  const database = open(file);
  const tables = () => database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()?.n;
  const before = tables();
  const refused: [string[], RegExp][] = [
    [["--yes"], /needs RESOURCE/],
    [["payments", "--yes"], /no guard with the table tenure_guard/],
    [["payments", "--yes", "--guard", "entry"], /no guard with the table entry/],
    [["payments", "--yes", "--guard", "a;b"], /plain name/],
    [["payments", "--yes", "--resource", "payments"], /takes no --resource/],
    [["payments", "--yes", "--database", "sqlite:./none.db"], /does not exist/],
    [["payments", "--yes", "--database", "file:./none.json"], /does not exist/],
    [["payments", "--yes", "--database", "file:"], /needs the path/],
    [["payments", "--yes", "--database", "memory:"], /postgres:.*redis:.*file:/],
    [["payments", "--yes", "--database", `${etcd().url}/x`, "--guard", "x"], /Remove --guard/],
    [["payments", "--yes", "--database", `${redis().url}?prefix=x`], /--guard PREFIX/],
    [["payments", "--yes", "--database", postgres().url, "--guard", "none"], /"none" is missing/],
  ];
  const isRefused = async ([args, words]: [string[], RegExp]): Promise<void> => {
    const cli = await here.run(["guard", "reset", ...args], { TENURE_DATABASE: `sqlite:${file}` });
    expect([args, cli.exit.code, cli.err]).toEqual([
      args,
      EXIT.usage,
      expect.stringMatching(words),
    ]);
  };
  await Promise.all(refused.map(isRefused));
  expect(tables()).toBe(before);
  const install = await here.run(
    ["guard", "install", "entry", "--resource", "r", "--database", redis().url],
    {},
  );
  expect([install.exit.code, install.err]).toEqual([
    EXIT.usage,
    expect.stringMatching("tables can be protected only there"),
  ]);
});

test.each([
  "redis://:hush@127.0.0.1:1",
  "etcd://u:hush@127.0.0.1:1",
  "zookeeper://u:hush@127.0.0.1:1",
  "postgres://u:hush@127.0.0.1:1/app",
])("an unreachable server exits with 69, and the message hides the password: %s", async (url) => {
  const nowhere = await world().run(["guard", "reset", "payments", "--yes", "--database", url]);
  expect([nowhere.exit.code, nowhere.out]).toEqual([EXIT.unavailable, ""]);
  expect(nowhere.err).not.toContain("hush");
});
