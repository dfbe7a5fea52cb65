// Goal: a place whose owner never said that it waits holds nobody up, and nobody takes it away from one who holds. Method: a real
// server, and connections that go deaf or wait on command.

import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { HEAD_START_MS, type Store } from "../../../src/stores/contract.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import {
  ask,
  Deafening,
  LIMIT_MS,
  opcodeOf,
  open,
  opened,
  openedPair,
  release,
  take,
  untilFree,
} from "../../support/stores/zookeeper-line.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";

const zookeeper = useServer(startZooKeeper);
const GET_CHILDREN2 = 12;
const MULTI = 14;
const CREATE_CONTAINER = 19;
let roots = 0;

function newRoot(): string {
  roots += 1;
  return `/unmarked${roots}`;
}

/** What is sent with this opcode waits; `begun` when it has come so far, `letGo` sends it. */
function heldBack(link: Deafening, opcode: number): { begun: Promise<void>; letGo: () => void } {
  let letGo = (): void => undefined;
  const gate = new Promise<void>((resolve) => {
    letGo = resolve;
  });
  const begun = new Promise<void>((resolve) => {
    link.waitAt = (chunk) => {
      if (opcodeOf(chunk) !== opcode) return undefined;
      resolve();
      return gate;
    };
  });
  return { begun, letGo };
}

/** Its connection goes deaf when it asks for a place: it has one, does not know it, and never says that it waits. */
async function leaveUnmarked(link: Deafening, store: Store, sessionId: string): Promise<void> {
  link.goesDeafAt = (chunk) => [MULTI, CREATE_CONTAINER].includes(opcodeOf(chunk));
  await expect(ask(store, sessionId, { limitMs: 400 })).rejects.toMatchObject({
    applied: "unknown",
  });
  link.goesDeafAt = () => false;
}

test("a waiter that was cut off before it could say that it waits is passed over, and holds nothing when it is back", async () => {
  const root = newRoot();
  const { link, store, other } = await openedPair(zookeeper(), root);
  await open(store, "stuck");
  await open(other, "one", "next", "last");
  const first = await take(other, "one");
  await leaveUnmarked(link, store, "stuck");
  expect(await ask(other, "next")).toEqual({ kind: "busy", holderId: "one" });
  await release(other, "one", first);
  // Whoever came when nobody was before it any more cannot know that it does not hold; but who saw it behind another can.
  expect(await ask(other, "last")).toEqual({ kind: "busy", holderId: "stuck" });
  await untilFree(other, "next");
  const token = await take(other, "next");
  expect(await ask(store, "stuck")).toEqual({ kind: "busy", holderId: "next" });
  await release(other, "next", token);
  await untilFree(other, "last");
  await take(other, "last");
});

test("S4: who was not alone when it came is not passed over once it holds, though it never waited", async () => {
  const root = newRoot();
  const { link, store, other } = await openedPair(zookeeper(), root);
  await open(store, "two");
  await open(other, "one", "next");
  const first = await take(other, "one");
  const listing = heldBack(link, GET_CHILDREN2);
  const asking = take(store, "two");
  await listing.begun;
  expect(await ask(other, "next")).toEqual({ kind: "busy", holderId: "one" });
  let isWoken = false;
  const wait = untilFree(other, "next").then(() => {
    isWoken = true;
  });
  await release(other, "one", first);
  listing.letGo();
  link.waitAt = () => undefined;
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

test("S4: the request that passes over who has not said that it waits does nothing when its sender's own place is gone", async () => {
  const root = newRoot();
  const [deaf, link] = [new Deafening(), new Deafening()];
  const store = await opened(zookeeper(), root, deaf.dial);
  const nexts = await opened(zookeeper(), root, link.dial);
  const other = await opened(zookeeper(), root);
  await open(store, "stuck");
  await open(nexts, "next");
  await open(other, "one");
  const first = await take(other, "one");
  await leaveUnmarked(deaf, store, "stuck");
  await ask(nexts, "next");
  await using console = await Console.open(zookeeper());
  const passing = heldBack(link, MULTI);
  const stop = new AbortController();
  const place = { sessionId: "next", resource: "r", attempt: "next.1", limitMs: LIMIT_MS };
  const wait = nexts.untilFree({ ...place, signal: stop.signal }).catch(() => "stopped");
  await release(other, "one", first);
  await passing.begun;
  const parent = `${root}/leases/r`;
  const [stuck, next] = (await console.children(parent)).sort(bySequence);
  await console.deleteAll(`${parent}/${next}`);
  passing.letGo();
  link.waitAt = () => undefined;
  // Behind it on the same connection.
  expect((await ask(nexts, "next", { attempt: "next.2" })).kind).toBe("busy");
  expect(await console.children(parent)).toContain(stuck);
  stop.abort();
  await wait;
});

/** As the places stand. */
function bySequence(one: string, other: string): number {
  return Number(one.slice(-10)) - Number(other.slice(-10));
}
