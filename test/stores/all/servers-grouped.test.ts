// Goal: servers that need several processes or special settings behave as the fault tests assume:
// replicas follow and can be promoted, clusters elect leaders, passwords and TLS are enforced.
// Method: as in servers.test.ts.
import { describe, expect, test } from "vitest";
import { type Address, ask, until } from "../../servers/ask.ts";
import { type EtcdServer, startEtcd, startEtcdCluster } from "../../servers/etcd.ts";
import { callEtcd } from "../../servers/etcd-gateway.ts";
import { startPostgresPair } from "../../servers/postgres.ts";
import { startRedis, startRedisPair } from "../../servers/redis.ts";
import type { RunningServer } from "../../servers/server.ts";
import { useServer } from "../../servers/use-server.ts";

const base64 = (text: string): string => Buffer.from(text).toString("base64");

function address(server: RunningServer & { ca: string | undefined }): Address {
  return { host: server.host, port: server.port, ca: server.ca };
}

describe("a Redis without durable options", () => {
  const redis = useServer(startRedis, { own: true });

  test("a kill loses all data", async () => {
    await redis().command("SET", "key", "value");
    await redis().kill();
    await redis().start();
    expect(await redis().command("GET", "key")).toBeNull();
  });
});

describe("a Redis with password and TLS", () => {
  const redis = useServer(startRedis, { password: "p w:1", tls: true });

  test("the server is reachable only with its URL and certificate", async () => {
    expect(redis().url).toMatch(/^rediss:\/\/:p%20w%3A1@/);
    expect(await redis().command("ECHO", "hi")).toBe("hi");
    const plain = { ...address(redis()), ca: undefined };
    const isPong = (answer: Buffer): true | undefined => answer.includes("PONG") || undefined;
    expect(await ask(plain, "PING\r\n", isPong, 200)).toBeUndefined();
  });
});

describe("a Redis pair", () => {
  const pair = useServer(startRedisPair);

  test("the replica has what the master acknowledged, and can replace it", async () => {
    const { master, replica } = pair();
    // On one connection, because WAIT waits only for the writes of its own connection.
    const write = ["SET", "key", "value"];
    expect(await master.commands([write, ["WAIT", "1", "5000"]])).toBe(1);
    expect(await replica.command("GET", "key")).toBe("value");
    await expect(replica.command("SET", "key", "other")).rejects.toThrow("READONLY");
    await master.kill();
    await replica.command("REPLICAOF", "NO", "ONE");
    expect(await replica.command("SET", "key", "other")).toBe("OK");
  });
});

describe("an etcd cluster", () => {
  const cluster = useServer(startEtcdCluster, { fastElections: true });

  test("the cluster elects another leader when the leader is killed, and the old one can rejoin", async () => {
    const leader = await cluster().leader();
    await leader.kill();
    const next = await cluster().leader();
    expect(next.name).not.toBe(leader.name);
    await next.call("/v3/kv/put", { key: base64("key"), value: base64("value") });
    await leader.start();
    expect((await leader.call("/v3/kv/range", { key: base64("key") })).count).toBe("1");
  });

  test("the cluster does not serve without a majority, and serves again when the majority is back", async () => {
    const [first, ...others] = cluster().members as [EtcdServer, EtcdServer, EtcdServer];
    for (const other of others) await other.pause();
    await until("the last member has noticed", async () => !(await first.answers(200)), 20_000);
    for (const other of others) await other.resume();
    await until("it serves again", () => first.answers(), 20_000);
  });
});

describe("an etcd with password and TLS", () => {
  const etcd = useServer(startEtcd, { rootPassword: "p w", tls: true });

  test("root is served, and other logins are rejected", async () => {
    const range = { key: base64("key") };
    expect(await etcd().call("/v3/kv/range", range)).toHaveProperty("header");
    const login = { name: "root", password: "wrong" };
    await expect(callEtcd(address(etcd()), "/v3/kv/range", range, login)).rejects.toThrow(
      "authentication failed",
    );
    await expect(callEtcd(address(etcd()), "/v3/kv/range", range)).rejects.toThrow("user name");
  });
});

describe("a PostgreSQL pair with password and TLS", () => {
  const pair = useServer(startPostgresPair, { password: "p w", tls: true });

  test("the standby follows the primary, and starts the next timeline when promoted", async () => {
    const { primary, standby, promote } = pair();
    await primary.sql("create table made ()");
    const has = async (): Promise<boolean> =>
      (await standby.sql("select to_regclass('made')")) === "made";
    await until("the standby has the table", has, 10_000);
    await expect(standby.sql("create table more ()")).rejects.toThrow("read-only");
    await primary.kill();
    await promote();
    await standby.sql("create table more ()");
    // The control file shows the new timeline only after the next checkpoint; the name of the log
    // file shows it immediately.
    const timeline = "select left(pg_walfile_name(pg_current_wal_lsn()), 8)::int";
    expect(await standby.sql(timeline)).toBe("2");
  });

  test("the connection is encrypted", async () => {
    const { standby } = pair();
    expect(standby.url).toContain("postgres:p%20w@");
    expect(standby.ca).toContain("BEGIN CERTIFICATE");
    const facts = "select ssl from pg_stat_ssl where pid = pg_backend_pid()";
    expect(await standby.sql(facts)).toBe("t");
  });
});
