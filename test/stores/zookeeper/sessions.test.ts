// Goal: the store forgets sessions that expired without being ended, a renewal succeeds although a
// withdrawal that it carries fails, and acknowledged revocations are deleted from the server.
// Method: a real server, and a `connect` function that records the connections.
import { connect as dial, type Socket } from "node:net";
import { expect, test } from "vitest";
import { type Message, setData } from "../../../src/clients/zookeeper/messages.ts";
import { namesOf } from "../../../src/clients/zookeeper/names.ts";
import type { LeaseRef } from "../../../src/stores/contract.ts";
import { decodeNotices } from "../../../src/stores/zookeeper/record.ts";
import { until } from "../../servers/ask.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";
import {
  ask,
  LIMIT_MS,
  openSessions,
  openStore,
  take,
} from "../../support/stores/zookeeper-queue.ts";

const zookeeper = useServer(startZooKeeper);

test("a session that expired without being ended is forgotten when the next one opens", async () => {
  const sockets: Socket[] = [];
  const store = await openStore(zookeeper(), "/sessions-forgotten", (host, port) => {
    const socket = dial({ host, port, noDelay: true });
    sockets.push(socket);
    return socket;
  });
  const short = { sessionId: "short", holderId: "short", ttlMs: 1_000, limitMs: LIMIT_MS };
  const { ttlMs } = await store.openSession(short);
  const openedAt = performance.now();
  const own = sockets.at(-1);
  await take(store, "short");
  await until("the server ended the session", async () => own?.destroyed === true, 20_000);
  const isOver = async (): Promise<boolean> => performance.now() - openedAt > ttlMs;
  await until("its time is up by the local clock", isOver, 20_000);
  await openSessions(store, "next");
  // For a session that it still knew, the store would query the server over a new connection.
  const before = sockets.length;
  expect(await ask(store, "short", { attempt: "short.2" })).toEqual({ kind: "gone" });
  expect(sockets).toHaveLength(before);
  await take(store, "next");
});

test("a session that is renewed is not forgotten", async () => {
  const store = await openStore(zookeeper(), "/sessions-kept");
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
  await openSessions(store, "next");
  expect(await ask(store, "brief")).toEqual({ kind: "granted", token });
});

/** Leaves read and admin permission only: children can be neither created nor deleted. */
function forbidChanges(path: string): Message {
  return {
    opcode: 7,
    write: (body) => void body.text(path).int(1).int(17).text("world").text("anyone").int(-1),
  };
}

test("a withdrawal that fails does not fail the renewal", async () => {
  const root = "/sessions-withdrawal";
  const store = await openStore(zookeeper(), root);
  await openSessions(store, "one", "two");
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

test("acknowledged revocations are deleted from the session's node, even if another one arrives in between", async () => {
  const root = "/sessions-acknowledged";
  const store = await openStore(zookeeper(), root);
  await openSessions(store, "one");
  await using console = await Console.open(zookeeper());
  const { sessions } = namesOf(root);
  const [node = ""] = (await console.children(sessions)).filter((name) =>
    name.endsWith("-notices"),
  );
  const atServer = async (): Promise<LeaseRef[]> =>
    decodeNotices((await console.read(`${sessions}/${node}`)).data).map(({ ref }) => ref);
  const revoke = async (attempt: string): Promise<LeaseRef> => {
    const ref = { resource: "r", token: await take(store, "one", { attempt }) };
    expect(await store.revoke({ ...ref, limitMs: LIMIT_MS })).toEqual({ kind: "revoked" });
    return ref;
  };
  const renew = async (acknowledged: readonly LeaseRef[]): Promise<unknown> => {
    const session = { sessionId: "one", limitMs: LIMIT_MS };
    const outcome = await store.renew({ ...session, withdrawn: [], acknowledged });
    return outcome.kind === "renewed" ? outcome.gone : outcome;
  };
  const first = await revoke("one.1");
  expect(await renew([])).toEqual([first]);
  const second = await revoke("one.2");
  expect(await renew([first])).toEqual([second]);
  // The holder does not repeat acknowledgements that a successful renewal carried.
  expect(await renew([second])).toEqual([]);
  expect(await renew([])).toEqual([]);
  expect(await atServer()).toEqual([]);
  const third = await revoke("one.3");
  expect(await renew([])).toEqual([third]);
  // The node is written at the same time, so the deletion may fail. It is repeated.
  const { data } = await console.read(`${sessions}/${node}`);
  const written = console.send(setData(`${sessions}/${node}`, data, -1));
  expect(await renew([third])).toEqual([]);
  await written;
  expect(await renew([])).toEqual([]);
  await until(
    "the notice is deleted",
    async () => {
      await renew([]);
      return (await atServer()).length === 0;
    },
    LIMIT_MS,
  );
});
