// Goal: a revocation is reported until it is acknowledged, and a deletion from the session's node never takes a notice with
// it that the holder has not acknowledged. Method: the bookkeeping alone, with the node's contents as plain values.

import { expect, test } from "vitest";
import type { LeaseRef } from "../contract.ts";
import { Notices } from "./notices.ts";
import { encodeNotices } from "./record.ts";

const [a, b, c]: readonly [LeaseRef, LeaseRef, LeaseRef] = [
  { resource: "a", token: 1n },
  { resource: "b", token: 2n },
  { resource: "a", token: 3n },
];

test("a deletion keeps what is not acknowledged, conditional on the version that was read", () => {
  const notices = new Notices();
  notices.read([a, b, c], 5);
  expect(notices.deletion).toBeUndefined();
  notices.acknowledge([a]);
  expect(notices.unacknowledged).toEqual([b, c]);
  expect(notices.deletion).toMatchObject({ data: encodeNotices([b, c]), version: 5 });
});

test("unknown acknowledgements are ignored", () => {
  const notices = new Notices();
  notices.acknowledge([a]);
  expect(notices.deletion).toBeUndefined();
  notices.read([a], 1);
  expect(notices.unacknowledged).toEqual([a]);
});

test("an acknowledged notice that is still in the node is not reported again and is deleted later", () => {
  const notices = new Notices();
  notices.read([a], 1);
  notices.acknowledge([a]);
  // Another revocation came first, so the deletion failed.
  notices.read([a, b], 2);
  expect(notices.unacknowledged).toEqual([b]);
  expect(notices.deletion).toMatchObject({ data: encodeNotices([b]), version: 2 });
});

test("after a deletion the node has the new version and nothing is left to delete", () => {
  const notices = new Notices();
  notices.read([a, b], 2);
  notices.acknowledge([a]);
  notices.deleted(notices.deletion?.handled ?? [], 3);
  expect(notices.deletion).toBeUndefined();
  notices.acknowledge([b]);
  expect(notices.deletion).toMatchObject({ data: "", version: 3 });
});

test("what is acknowledged while a deletion is under way is left for the next one", () => {
  const notices = new Notices();
  notices.read([a, b], 2);
  notices.acknowledge([a]);
  const first = notices.deletion;
  notices.acknowledge([b]);
  notices.deleted(first?.handled ?? [], 3);
  expect(notices.deletion).toMatchObject({ data: "", version: 3 });
});

test("a node that a person deleted ends the deletions, not the reports", () => {
  const notices = new Notices();
  notices.read([a, b], 2);
  notices.acknowledge([a]);
  notices.read([], 0);
  expect(notices.deletion).toBeUndefined();
  expect(notices.unacknowledged).toEqual([b]);
});
