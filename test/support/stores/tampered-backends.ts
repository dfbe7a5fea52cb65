// Backends whose records a test can overwrite, as a hostile or buggy program with write access
// could. Call these functions at the top of a describe block. Each backend is a real server; the
// stores use a namespace that no other test uses, because the server may be shared.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import { namesOf as etcdNames } from "../../../src/clients/etcd/names.ts";
import { loadDriver } from "../../../src/clients/sqlite/driver.ts";
import { setData } from "../../../src/clients/zookeeper/messages.ts";
import { namesOf as zookeeperNames } from "../../../src/clients/zookeeper/names.ts";
import { namesOf as redisNames } from "../../../src/stores/redis/names.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { Console } from "./zookeeper-nodes.ts";

export interface TamperedBackend {
  url(): string;
  /** Replaces what the holder published, without changing which session holds the resource. */
  overwriteRecord(resource: string, junk: string): Promise<void>;
  /** Writes malformed revocation notices for the session that holds this resource. */
  addMalformedNotices(resource: string, sessionId: string): Promise<void>;
}

const NAMESPACE = `hostile-${process.pid}-${Date.now()}`;

export const tamperedBackends: Readonly<Record<string, () => TamperedBackend>> = {
  sqlite: useTamperedSqlite,
  postgres: useTamperedPostgres,
  redis: useTamperedRedis,
  etcd: useTamperedEtcd,
  zookeeper: useTamperedZooKeeper,
};

function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

function useTamperedSqlite(): TamperedBackend {
  const folder = mkdtempSync(join(tmpdir(), "tenure-hostile-"));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const file = join(folder, "tenure.db");
  const run = async (sql: string, ...values: string[]): Promise<void> => {
    const connection = (await loadDriver()).open(file);
    connection.exec("PRAGMA busy_timeout = 5000");
    connection.prepare(sql).run(...values);
    connection.close();
  };
  return {
    url: () => `sqlite:${file}`,
    overwriteRecord: (resource, junk) =>
      run("UPDATE lease SET record = ? WHERE resource = ?", junk, resource),
    addMalformedNotices: (resource, session) =>
      run(
        "INSERT OR IGNORE INTO revocation VALUES (?, ?, -1), (?, 'other', 0)",
        session,
        resource,
        session,
      ),
  };
}

export function useTamperedPostgres(): TamperedBackend & { sql(text: string): Promise<unknown> } {
  const server = useServer(startPostgres);
  return {
    sql: (text) => server().sql(text),
    url: () => server().url,
    overwriteRecord: async (resource, junk) => {
      const value = `record = ${quote(junk)}`;
      await server().sql(`UPDATE tenure.lease SET ${value} WHERE resource = ${quote(resource)}`);
    },
    addMalformedNotices: async (resource, session) => {
      const who = `${quote(session)}, ${quote(resource)}`;
      await server().sql(
        `INSERT INTO tenure.revocation VALUES (${who}, 'NaN'), (${who}, -1) ON CONFLICT DO NOTHING`,
      );
    },
  };
}

export function useTamperedRedis(): TamperedBackend & {
  command(...words: string[]): Promise<unknown>;
  readonly names: ReturnType<typeof redisNames>;
} {
  const server = useServer(startRedis);
  const names = redisNames(NAMESPACE);
  const command = (...words: string[]): Promise<unknown> => server().command(...words);
  return {
    names,
    command,
    url: () => `${server().url}?prefix=${NAMESPACE}`,
    overwriteRecord: async (resource, junk) => {
      const text = String(await command("GET", names.lease(resource)));
      // A record begins with state, token, session and attempt; the last two are length-prefixed.
      const lengths = /^.(\d+):(\d+):/.exec(text);
      const session = (lengths?.[0].length ?? 0) + Number(lengths?.[2]);
      const attempt = /^(\d+):/.exec(text.slice(session));
      const start = session + (attempt?.[0].length ?? 0) + Number(attempt?.[1]);
      await command("SET", names.lease(resource), text.slice(0, start) + junk);
    },
    addMalformedNotices: async (resource, session) => {
      await command("SADD", names.notices(session), resource, "junk", "[1,2]", '["lost"]');
    },
  };
}

function useTamperedEtcd(): TamperedBackend {
  const server = useServer(startEtcd);
  const names = etcdNames(`${NAMESPACE}/`);
  const put = async (key: Buffer, value: string, more: object): Promise<void> => {
    const inBase64 = { key: key.toString("base64"), value: Buffer.from(value).toString("base64") };
    await server().call("/v3/kv/put", { ...inBase64, ...more });
  };
  return {
    url: () => `${server().url}/${NAMESPACE}`,
    overwriteRecord: async (resource, junk) => {
      const [key, end] = Object.values(names.queue(resource)).map((each) =>
        each.toString("base64"),
      );
      const range = { key, range_end: end, sort_target: "CREATE", sort_order: "ASCEND", limit: 1 };
      const { kvs } = (await server().call("/v3/kv/range", range)) as { kvs: { key: string }[] };
      await put(Buffer.from(kvs[0]?.key ?? "", "base64"), junk, { ignore_lease: true });
    },
    addMalformedNotices: async (resource, sessionId) => {
      const { lease, revoked, wanted } = names.session(sessionId);
      for (const junk of ["junk", "", "-1", "9".repeat(100_000)])
        for (const note of [revoked, wanted])
          await put(note(`${resource}${junk.length}`), junk, { lease: String(lease) });
    },
  };
}

function useTamperedZooKeeper(): TamperedBackend {
  const server = useServer(startZooKeeper);
  const names = zookeeperNames(`/${NAMESPACE}`);
  /** Writes until the node has version 2, which marks a queue node as holding the resource. */
  const write = async (path: string, data: string): Promise<void> => {
    await using console = await Console.open(server());
    const { stat } = await console.read(path);
    for (let written = stat.version; written < 2; written += 1)
      await console.send(setData(path, data, -1));
    if (stat.version >= 2) await console.send(setData(path, data, -1));
  };
  const findQueueNode = async (resource: string): Promise<string> => {
    await using console = await Console.open(server());
    const [place = ""] = await console.children(names.parent(resource));
    return place;
  };
  return {
    url: () => `${server().url}/${NAMESPACE}`,
    overwriteRecord: async (resource, junk) =>
      write(`${names.parent(resource)}/${await findQueueNode(resource)}`, junk),
    addMalformedNotices: async (resource) => {
      const session = (await findQueueNode(resource)).slice(0, 16);
      await write(names.noticesNode(session), '[["a",1],["b","junk"],null,{"c":3}]');
      // Makes the next renewal read the notices: it does so when its own node has changed.
      await write(names.sessionNode(session), "junk");
    },
  };
}
