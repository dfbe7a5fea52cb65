// Goal: the store forgets sessions that expired without being ended, and a renewal succeeds although a withdrawal that it
// carries fails. Method: a real server; connections are counted where they are made.

import { connect as dial, type Socket } from "node:net";
import { expect, test } from "vitest";
import type { Message } from "../../src/stores/zookeeper/messages.ts";
import { namesOf } from "../../src/stores/zookeeper/names.ts";
import { until } from "../servers/ask.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import { ask, LIMIT_MS, open, opened, take } from "../support/zookeeper-line.ts";
import { Console } from "../support/zookeeper-nodes.ts";

const zookeeper = useServer(startZooKeeper);

test("a session that expired without being ended is forgotten when the next one opens", async () => {
  const sockets: Socket[] = [];
  const store = await opened(zookeeper(), "/sessions-forgotten", (host, port) => {
    const socket = dial({ host, port, noDelay: true });
    sockets.push(socket);
    return socket;
  });
  const short = { sessionId: "short", holderId: "short", ttlMs: 1_000, limitMs: LIMIT_MS };
  const { ttlMs } = await store.openSession(short);
  const openedAt = performance.now();
  const own = sockets.at(-1);
  await take(store, "short");
  await until("the server has ended the session", async () => own?.destroyed === true, 20_000);
  const isOver = async (): Promise<boolean> => performance.now() - openedAt > ttlMs;
  await until("its time is up by the local clock", isOver, 20_000);
  await open(store, "next");
  // A session that the store still knew would ask the server for its fate, over a new connection.
  const before = sockets.length;
  expect(await ask(store, "short", { attempt: "short.2" })).toEqual({ kind: "gone" });
  expect(sockets).toHaveLength(before);
  await take(store, "next");
});

test("a session that is renewed is not forgotten", async () => {
  const store = await opened(zookeeper(), "/sessions-kept");
  const brief = { sessionId: "brief", holderId: "brief", ttlMs: 4_000, limitMs: LIMIT_MS };
  const { ttlMs } = await store.openSession(brief);
  const openedAt = performance.now();
  const token = await take(store, "brief");
  await until(
    "more than its first ttl has passed",
    async () => {
      const renewal = { sessionId: "brief", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS };
      expect(await store.renew(renewal)).toMatchObject({ kind: "renewed" });
      return performance.now() - openedAt > ttlMs;
    },
    20_000,
  );
  await open(store, "next");
  expect(await ask(store, "brief")).toEqual({ kind: "granted", token });
});

/** Read and admin only: nodes below it can be neither created nor deleted. */
function forbidChanges(path: string): Message {
  return {
    opcode: 7,
    write: (body) => void body.text(path).int(1).int(17).text("world").text("anyone").int(-1),
  };
}

test("a withdrawal that fails does not fail the renewal", async () => {
  const root = "/sessions-withdrawal";
  const store = await opened(zookeeper(), root);
  await open(store, "one", "two");
  await take(store, "one");
  await ask(store, "two");
  await using console = await Console.open(zookeeper());
  await console.send(forbidChanges(namesOf(root).parent("r")));
  const withdrawn = { resource: "r", attempt: "two.1" };
  const withdrawal = store.withdraw({ sessionId: "two", ...withdrawn, limitMs: LIMIT_MS });
  await expect(withdrawal).rejects.toMatchObject({ code: "STORE_UNUSABLE" });
  const renewal = { sessionId: "two", withdrawn: [withdrawn], acknowledged: [], limitMs: LIMIT_MS };
  expect(await store.renew(renewal)).toMatchObject({ kind: "renewed" });
});
