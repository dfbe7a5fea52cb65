// Goal: a malformed answer grants nothing, and of several waiters the preferred one is found.
// Method: a place whose server is a list of answers, and queues as lists of names.
import { expect, test } from "vitest";
import type { Call } from "../../clients/zookeeper/call.ts";
import { ProtocolError } from "../../clients/zookeeper/jute.ts";
import type { MultiAnswer } from "../../clients/zookeeper/messages.ts";
import { queueNodesOf } from "../../clients/zookeeper/names.ts";
import type { Batch } from "./batch.ts";
import { findPreferred, Place, type Position } from "./grant.ts";

const PARENT = "/tenure/leases/r";
const BASE = "0000000000000001-.1";
const stat = { czxid: 7n, mzxid: 9n, mtimeMs: 0, version: 0, childCount: 1 };

function enter(parts: MultiAnswer["parts"]): { place: Place; entered: Promise<Position> } {
  const taken: MultiAnswer = { error: 0, failedAt: -1, parts };
  const place = new Place({
    resource: "r",
    attempt: "s.1",
    parent: PARENT,
    base: BASE,
    data: "",
    acl: { scheme: "world", id: "anyone" },
    parents: new Set([PARENT]),
    batch: { take: () => Promise.resolve(taken) } as unknown as Batch,
  });
  return { place, entered: place.enter({} as Call) };
}

test("the only node of a resource holds it, with the number of the transaction as token", async () => {
  const { place, entered } = enter([{ path: `${PARENT}/${BASE}_0000000004` }, { stat }]);
  expect(await entered).toEqual({ kind: "first" });
  expect([place.token, place.path]).toEqual([9n, `${PARENT}/${BASE}_0000000004`]);
});

test("S7: an answer that lacks a part of the transaction is malformed, and grants nothing", async () => {
  const answers: MultiAnswer["parts"][] = [[], [{}, { stat }], [{ path: `${PARENT}/x` }, {}]];
  for (const parts of answers) await expect(enter(parts).entered).rejects.toThrow(ProtocolError);
});

const queue = queueNodesOf([
  "000000000000000a-.1@2.aaaaaaaa._0000000001",
  "000000000000000b-.1@1.bbbbbbbb._0000000002",
  "000000000000000c-.1_0000000003",
  "000000000000000d-.1@0.dddddddd._0000000004",
  // It was the first one of rank 0, and has given way.
  "000000000000000e-.1@0.eeeeeeee.0_0000000005",
]);

test("the preferred waiter has the lowest rank, and among those the earliest first node", () => {
  expect(findPreferred(queue, "")).toBe(queue[4]);
  expect(findPreferred(queue.slice(0, 4), "")).toBe(queue[2]);
  expect(findPreferred(queue.slice(0, 2), "")).toBe(queue[1]);
  expect(findPreferred(queue.slice(0, 1), "")).toBe(queue[0]);
});

test("a holder that the release named comes first if it waits", () => {
  expect(findPreferred(queue, "aaaaaaaa")).toBe(queue[0]);
  expect(findPreferred(queue, "ffffffff")).toBe(queue[4]);
});
