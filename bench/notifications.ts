// The bare notification of each engine, from one process to another: Redis pub/sub, LISTEN and
// NOTIFY, a watch of etcd, a watch of ZooKeeper. No handover can be faster than that.

import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import pg from "pg";
import { openClient } from "../src/clients/etcd/open.ts";
import { checkEtcdOptions } from "../src/clients/etcd/options.ts";
import { txn } from "../src/clients/etcd/rpc.ts";
import { Watches } from "../src/clients/etcd/watches.ts";
import { CREATE, create, getData, setData } from "../src/clients/zookeeper/messages.ts";
import { systemParts } from "../src/runtime/system.ts";
import { Console } from "../test/support/stores/zookeeper-nodes.ts";
import type { Contestant } from "./comparison.ts";
import { compile } from "./compile.ts";
import type { Engine, ServerEngine } from "./servers.ts";
import { newResource, Worker } from "./workers.ts";

/** A connection that notifies and is notified. It stays open until the process ends. */
export interface Notifier {
  listen(topic: string, onMessage: () => void): Promise<void>;
  send(topic: string): Promise<unknown>;
}

export const openNotifier: Readonly<Record<ServerEngine, (url: string) => Promise<Notifier>>> = {
  redis: openRedis,
  postgres: openPostgres,
  etcd: openEtcd,
  zookeeper: openZooKeeper,
};

const WORKER = new URL("./workers/notifier.ts", import.meta.url);

/** `pause`: how long the receiver waits, in milliseconds. None on SQLite, which has no server. */
export function bareNotification(
  { engine, url }: { readonly engine: Engine; readonly url: string },
  {
    count,
    pauseMs,
    target,
  }: { readonly count: number; pauseMs(): number; readonly target?: number },
): Contestant[] {
  if (engine === "sqlite") return [];
  const settings = { engine, url };
  const measure = async (): Promise<{ times: number[] }> => {
    const program = await compile(WORKER);
    const open = (): Worker => new Worker(program, settings);
    const [sender, receiver] = [open(), open()];
    try {
      await Promise.all([sender.next(), receiver.next()]);
      const topic = newResource();
      await receiver.ask({ listen: topic });
      const times: number[] = [];
      while (times.length < count) {
        const received = receiver.ask<number>({ receive: true });
        await sleep(pauseMs());
        const sentAt = await sender.ask<number>({ send: topic });
        times.push((await received) - sentAt);
      }
      return { times };
    } finally {
      await Promise.all([sender.end(), receiver.end()]);
    }
  };
  return [{ name: "a bare notification", kind: "baseline", target, measure }];
}

async function openRedis(url: string): Promise<Notifier> {
  const [listener, sender] = [new Redis(url), new Redis(url)];
  await sender.ping();
  return {
    listen: async (topic, onMessage) => {
      listener.on("message", onMessage);
      await listener.subscribe(topic);
    },
    send: (topic) => sender.publish(topic, ""),
  };
}

async function openPostgres(url: string): Promise<Notifier> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    listen: async (topic, onMessage) => {
      client.on("notification", onMessage);
      await client.query(`LISTEN "${topic}"`);
    },
    send: (topic) =>
      client.query({ name: "notify", text: "SELECT pg_notify($1, '')", values: [topic] }),
  };
}

async function openEtcd(url: string): Promise<Notifier> {
  const settings = checkEtcdOptions({ url, onWarning: () => undefined });
  const parts = systemParts();
  const client = await openClient(settings, parts);
  const watches = new Watches(client, parts.clock);
  return {
    listen: (topic, onMessage) =>
      new Promise((resolve, reject) => {
        watches.open({ key: Buffer.from(topic) }, undefined, {
          onBegin: () => resolve(),
          onEvents: onMessage,
          onLost: () => reject(new Error("the watch was lost")),
        });
      }),
    send: (topic) => {
      const put = { key: Buffer.from(topic), value: Buffer.from("x"), lease: 0n };
      return client.call(txn, { when: [], yes: [{ put }], no: [] }, { limitMs: 5_000 });
    },
  };
}

async function openZooKeeper(url: string): Promise<Notifier> {
  const { hostname: host, port } = new URL(url);
  const console = await Console.open({ host, port: Number(port) });
  return {
    listen: async (topic, onMessage) => {
      const path = `/${topic}`;
      const acl = { scheme: "world", id: "anyone" };
      await console.send(create({ path, data: "", acl, flags: CREATE.persistent }));
      // A watch reports one change, so the next one is set at once.
      console.wire.onEvent = () => {
        onMessage();
        void console.send(getData(path, true));
      };
      await console.send(getData(path, true));
    },
    send: (topic) => console.send(setData(`/${topic}`, "", -1)),
  };
}
