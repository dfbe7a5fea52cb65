// Goal: a queue node whose owner never marked it as waiting does not block the queue, and is never
// deleted while its owner holds the resource. Method: a real server, and connections that drop
// replies or delay requests on demand.
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { HEAD_START_MS, type Store } from "../../../src/stores/contract.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";
import {
  ask,
  FaultyLink,
  LIMIT_MS,
  openSessions,
  openStore,
  openStorePair,
  readOpcode,
  release,
  take,
  untilFree,
} from "../../support/stores/zookeeper-queue.ts";

const zookeeper = useServer(startZooKeeper);
const GET_CHILDREN2 = 12;
const MULTI = 14;
const CREATE_CONTAINER = 19;
let roots = 0;

function newRoot(): string {
  roots += 1;
  return `/unmarked${roots}`;
}

/**
 * Delays requests with this opcode: `begun` resolves when the first is delayed, `letGo` sends it.
 */
function delayRequests(
  link: FaultyLink,
  opcode: number,
): { begun: Promise<void>; letGo: () => void } {
  let letGo = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const begun = new Promise<void>((resolve) => {
    link.delay = (chunk) => {
      if (readOpcode(chunk) !== opcode) return undefined;
      resolve();
      return gate;
    };
  });
  return { begun, letGo };
}

/**
 * Drops the replies when the session asks for a queue node. The node exists, but the session does
 * not know it and never marks it as waiting.
 */
async function leaveUnmarked(link: FaultyLink, store: Store, sessionId: string): Promise<void> {
  link.dropRepliesFrom = (chunk) => [MULTI, CREATE_CONTAINER].includes(readOpcode(chunk));
  await expect(ask(store, sessionId, { limitMs: 400 })).rejects.toMatchObject({
    applied: "unknown",
  });
  link.dropRepliesFrom = () => false;
}

test("a waiter that was cut off before it could mark its node as waiting is skipped, and holds nothing when it returns", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "stuck");
  await openSessions(other, "one", "next", "last");
  const first = await take(other, "one");
  await leaveUnmarked(link, store, "stuck");
  expect(await ask(other, "next")).toEqual({ kind: "busy", holderId: "one" });
  await release(other, "one", first);
  // "last" arrived after "one" had left, so it cannot know that "stuck" does not hold the resource.
  // "next" can, because it saw the node queued after another one.
  expect(await ask(other, "last")).toEqual({ kind: "busy", holderId: "stuck" });
  await untilFree(other, "next");
  const token = await take(other, "next");
  expect(await ask(store, "stuck")).toEqual({ kind: "busy", holderId: "next" });
  await release(other, "next", token);
  await untilFree(other, "last");
  await take(other, "last");
});

test("S4: a session that queued after another one and was then granted without waiting is not skipped", async () => {
  const root = newRoot();
  const { link, store, other } = await openStorePair(zookeeper(), root);
  await openSessions(store, "two");
  await openSessions(other, "one", "next");
  const first = await take(other, "one");
  const listing = delayRequests(link, GET_CHILDREN2);
  const asking = take(store, "two");
  await listing.begun;
  expect(await ask(other, "next")).toEqual({ kind: "busy", holderId: "one" });
  let isWoken = false;
  const wait = untilFree(other, "next").then(() => {
    isWoken = true;
  });
  await release(other, "one", first);
  listing.letGo();
  link.delay = () => undefined;
  const token = await asking;
  await sleep(3 * HEAD_START_MS);
  expect(isWoken).toBe(false);
  const { holder } = await other.read({
    resource: "r",
    consistency: "linearizable",
    limitMs: LIMIT_MS,
  });
  expect(holder).toMatchObject({ holderId: "two", token });
  await release(store, "two", token);
  await wait;
});

test("S4: a request to skip an unmarked node does nothing if the sender's own node is gone", async () => {
  const root = newRoot();
  const [deaf, link] = [new FaultyLink(), new FaultyLink()];
  const store = await openStore(zookeeper(), root, deaf.dial);
  const nexts = await openStore(zookeeper(), root, link.dial);
  const other = await openStore(zookeeper(), root);
  await openSessions(store, "stuck");
  await openSessions(nexts, "next");
  await openSessions(other, "one");
  const first = await take(other, "one");
  await leaveUnmarked(deaf, store, "stuck");
  await ask(nexts, "next");
  await using console = await Console.open(zookeeper());
  const passing = delayRequests(link, MULTI);
  const stop = new AbortController();
  const place = { sessionId: "next", resource: "r", attempt: "next.1", limitMs: LIMIT_MS };
  const wait = waitUntilFree(nexts, { ...place, signal: stop.signal }).catch(() => "stopped");
  await release(other, "one", first);
  await passing.begun;
  const parent = `${root}/leases/r`;
  const [stuck, next] = (await console.children(parent)).sort(bySequence);
  await console.deleteAll(`${parent}/${next}`);
  passing.letGo();
  link.delay = () => undefined;
  // Sent after the skip on the same connection, so the skip has been handled when this is answered.
  expect((await ask(nexts, "next", { attempt: "next.2" })).kind).toBe("busy");
  expect(await console.children(parent)).toContain(stuck);
  stop.abort();
  await wait;
});

/** By position in the queue. */
function bySequence(one: string, other: string): number {
  return Number(one.slice(-10)) - Number(other.slice(-10));
}
