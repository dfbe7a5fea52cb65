// How to write to each resource, with its guard and without. The holder and its successor use the
// same code. Every write appends its token to a log that the resource itself keeps in order.

import { appendFileSync } from "node:fs";
import { Redis } from "ioredis";
import { Pool } from "pg";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { CREATE, create } from "../../src/clients/zookeeper/messages.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { fileGuard } from "../../src/guards/file/index.ts";
import type { TokenSource } from "../../src/guards/guard.ts";
import { fencedFetch } from "../../src/guards/http/index.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import { callEtcd } from "../../test/servers/etcd-gateway.ts";
import { Console } from "../../test/support/stores/zookeeper-nodes.ts";

export type ResourceName = "sqlite" | "file" | "http" | "redis" | "postgres" | "etcd" | "zookeeper";

/** Sent to the holder's process as JSON. */
export interface WriterSettings {
  readonly resource: ResourceName;
  /** A path, or a URL. */
  readonly at: string;
  /** Separates groups of trials that share a server. */
  readonly name: string;
  readonly isGuarded: boolean;
  /** Whether this writer will be stopped, perhaps inside a transaction. */
  readonly isStopped: boolean;
}

export interface Writer {
  /** How many writes a busy holder has in flight. */
  readonly inFlight: number;
  write(source: TokenSource): Promise<void>;
  /** What acquire({ guards }) does between the grant and the first write. */
  advance(source: TokenSource): Promise<void>;
  close(): Promise<void>;
}

const unguarded = async (): Promise<void> => undefined;

export const openWriter: Readonly<
  Record<ResourceName, (settings: WriterSettings) => Promise<Writer>>
> = {
  sqlite: async ({ at, isGuarded }) => {
    const database = (await loadDriver()).open(at);
    database.exec("PRAGMA busy_timeout = 5000; PRAGMA journal_mode = WAL");
    database.exec("CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, token TEXT)");
    const insert = database.prepare("INSERT INTO entry (token) VALUES (?)");
    const guard = isGuarded ? sqliteGuard(database) : undefined;
    const add = (token: bigint): void => void insert.run(String(token));
    return {
      inFlight: 1,
      write: async (source) => {
        if (guard === undefined) add(source.token);
        else guard.transaction(source, () => add(source.token));
      },
      advance: async (source) => guard?.advance(source),
      close: async () => database.close(),
    };
  },

  file: async ({ at, isGuarded }) => {
    const guard = fileGuard(at);
    return {
      inFlight: 1,
      write: async (source) => {
        const line = `${source.token}\n`;
        if (isGuarded) await guard.append(source, line);
        else appendFileSync(at, line);
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => guard.close(),
    };
  },

  http: async ({ at, isGuarded }) => {
    const send = fencedFetch();
    return {
      inFlight: 8,
      write: async (source) => {
        const init = { method: "PUT", body: String(source.token) };
        const answer = await (isGuarded ? send(at, { ...init, lease: source }) : fetch(at, init));
        await answer.text();
      },
      advance: unguarded,
      close: unguarded,
    };
  },

  redis: async ({ at, name, isGuarded }) => {
    const client = new Redis(at, { maxRetriesPerRequest: null });
    client.on("error", () => undefined);
    const guard = redisGuard(client, { prefix: `{${name}}:guard` });
    const key = `{${name}}:log`;
    return {
      inFlight: 8,
      write: async ({ resource, token }) => {
        if (!isGuarded) await client.rpush(key, String(token));
        else {
          const lua = "redis.call('RPUSH', KEYS[1], ARGV[1])";
          await guard.script({ resource, token }, lua, { keys: [key], args: [token] });
        }
      },
      advance: isGuarded ? guard.advance : unguarded,
      close: async () => client.disconnect(),
    };
  },

  postgres: async ({ at, name, isGuarded, isStopped }) => {
    const pool = new Pool({ connectionString: at, max: 4 });
    pool.on("error", () => undefined);
    // A holder that is stopped inside a transaction blocks its successor for this long. The
    // successor is not stopped, but may be starved on few cores.
    const idleMs = isStopped ? 300 : 5_000;
    const guard = postgresGuard(pool, { prefix: `${name}_guard`, idleMs });
    const insert = `INSERT INTO ${name} (token) VALUES ($1)`;
    return {
      inFlight: 4,
      write: async (source) => {
        const values = [String(source.token)];
        if (isGuarded) await guard.transaction(source, (tx) => tx.query(insert, values));
        else await pool.query(insert, values);
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => pool.end(),
    };
  },

  etcd: async ({ at, name, isGuarded }) => {
    // Debian's etcd 3.4 is warned about, which is of no interest here.
    const guard = etcdGuard({ url: `${at}/${name}`, onWarning: () => undefined });
    const address = toAddress(at);
    let written = 0;
    return {
      inFlight: 8,
      write: async (source) => {
        written += 1;
        const key = `${name}-log/${source.token}-${process.pid}-${written}`;
        const value = String(source.token);
        if (isGuarded) await guard.write(source, [{ put: key, value }]);
        else await callEtcd(address, "/v3/kv/put", { key: toBase64(key), value: toBase64(value) });
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: () => guard.close(),
    };
  },

  zookeeper: async ({ at, name, isGuarded }) => {
    const guard = zookeeperGuard(`${at}/${name}`);
    let bare = isGuarded ? undefined : await Console.open(toAddress(at));
    const acl = { scheme: "world", id: "anyone" };
    return {
      inFlight: 8,
      write: async (source) => {
        // The server numbers the nodes in the order in which it creates them.
        const path = `/${name}-log/${source.token}-`;
        // The console sends no pings, so the server ends its session in a long trial.
        if (bare?.wire.hasEnded) bare = await Console.open(toAddress(at));
        if (bare === undefined) await guard.write(source, [{ create: path, sequential: true }]);
        else await bare.send(create({ path, data: "", acl, flags: CREATE.persistentSequential }));
      },
      advance: isGuarded ? (source) => guard.advance(source) : unguarded,
      close: async () => {
        await bare?.[Symbol.asyncDispose]();
        await guard.close();
      },
    };
  },
};

function toAddress(url: string): { host: string; port: number } {
  const { hostname, port } = new URL(url);
  return { host: hostname, port: Number(port) };
}

function toBase64(text: string): string {
  return Buffer.from(text).toString("base64");
}
