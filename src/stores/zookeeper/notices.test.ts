// Goal: a revocation is reported until it is acknowledged, and a deletion never removes a notice
// that the session has not seen. Method: the bookkeeping alone, with the node's contents as text.

import { expect, test } from "vitest";
import type { LeaseRef } from "../contract.ts";
import { Notices } from "./notices.ts";
import { encodeNotices, type Notice } from "./record.ts";

const [a, b, c]: readonly [LeaseRef, LeaseRef, LeaseRef] = [
  { resource: "a", token: 1n },
  { resource: "b", token: 2n },
  { resource: "a", token: 3n },
];
const holdsNothing = (): boolean => false;

function lost(...refs: LeaseRef[]): string {
  return encodeNotices(refs.map((ref): Notice => ({ kind: "lost", session: "s", ref })));
}

function wanted(...refs: LeaseRef[]): string {
  return encodeNotices(refs.map((ref): Notice => ({ kind: "wanted", session: "s", ref })));
}

test("a deletion keeps what is not acknowledged, conditional on the version that was read", () => {
  const notices = new Notices();
  expect(notices.update(lost(a, b, c), 5)).toHaveLength(3);
  expect(notices.deletion(holdsNothing)).toBeUndefined();
  notices.acknowledge([a]);
  expect(notices.lost).toEqual([b, c]);
  expect(notices.deletion(holdsNothing)).toEqual({ data: lost(b, c), version: 5 });
});

test("unknown acknowledgements are ignored", () => {
  const notices = new Notices();
  notices.acknowledge([a]);
  notices.update(lost(a), 1);
  expect(notices.lost).toEqual([a]);
  expect(notices.deletion(holdsNothing)).toBeUndefined();
});

test("an acknowledged notice that is still in the node is not reported again and is deleted later", () => {
  const notices = new Notices();
  notices.update(lost(a), 1);
  notices.acknowledge([a]);
  // Another revocation came first, so the deletion failed.
  expect(notices.update(lost(a, b), 2)).toMatchObject([{ kind: "lost", ref: b }]);
  expect(notices.lost).toEqual([b]);
  expect(notices.deletion(holdsNothing)).toEqual({ data: lost(b), version: 2 });
  notices.update(lost(b), 3);
  expect(notices.deletion(holdsNothing)).toBeUndefined();
});

test("wishes for leases that are not held any more are deleted", () => {
  const notices = new Notices();
  notices.update(wanted(a, b), 1);
  expect(notices.wanted).toEqual([a, b]);
  const holdsB = ({ resource }: LeaseRef): boolean => resource === "b";
  expect(notices.deletion(holdsB)).toEqual({ data: wanted(b), version: 1 });
  expect(notices.deletion(() => true)).toBeUndefined();
});

test("hostile data names no lease and is deleted with the next deletion", () => {
  const notices = new Notices();
  expect(notices.update('["lost","s","a","-1"]\n{}\n["granted","s","a","1","x"]', 1)).toEqual([]);
  expect([notices.lost, notices.wanted]).toEqual([[], []]);
});
