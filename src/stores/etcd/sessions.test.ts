// Goal: a session whose lease expired between the two requests that open it is reported as an error of Tenure that may be
// retried (found by the simulator, docs/simulator.md), and the store forgets sessions that expire without being ended.
// Method: members that are a function.
import { expect, test } from "vitest";
import type { KeepAlives } from "../../clients/etcd/keep-alive.ts";
import type { Members } from "../../clients/etcd/members.ts";
import { namesOf } from "../../clients/etcd/names.ts";
import { leaseGrant, range } from "../../clients/etcd/rpc.ts";
import { EtcdStatusError } from "../../clients/etcd/transport.ts";
import { isTenureError } from "../../core/errors.ts";
import { Attempts } from "./attempts.ts";
import { openSession, renewSession, type SessionParts } from "./sessions.ts";

const names = namesOf("tenure/");
const request = { sessionId: "5e".repeat(16), holderId: "h", ttlMs: 2_000, limitMs: 100 };

function partsOf(members: Members, now: () => number): SessionParts {
  const alive = { header: { term: 1n }, ttl: 2 };
  const keepAlives = { renew: async () => alive } as unknown as KeepAlives;
  return { members, names, attempts: new Attempts(), keepAlives, now };
}

function opening(signing: () => never): Promise<unknown> {
  const call = async (rpc: unknown): Promise<unknown> =>
    rpc === leaseGrant ? { ttl: 2 } : signing();
  const members = { call } as unknown as Members;
  return openSession(
    partsOf(members, () => 0),
    request,
  ).catch((error: unknown) => error);
}

test("a lease that is gone before it is signed: unavailable, with an unknown outcome", async () => {
  const error = await opening(() => {
    throw new EtcdStatusError(5, "etcdserver: requested lease not found");
  });
  expect(isTenureError(error, "STORE_UNAVAILABLE")).toBe(true);
  expect(error).toMatchObject({ applied: "unknown" });
});

test("any other refusal stays what it is", async () => {
  const refused = new EtcdStatusError(7, "etcdserver: permission denied");
  const error = await opening(() => {
    throw refused;
  });
  expect(error).toBe(refused);
});

test("a session that was not renewed is forgotten when the next one opens, a renewed one is not", async () => {
  let now = 0;
  const call = async (rpc: unknown): Promise<unknown> => {
    if (rpc === leaseGrant) return { ttl: 2 };
    const kvs = [{ key: names.session("renewed").key }];
    return rpc === range ? { header: { term: 1n }, kvs } : { succeeded: true, answers: [] };
  };
  const parts = partsOf({ call } as unknown as Members, () => now);
  for (const sessionId of ["renewed", "left"]) {
    await openSession(parts, { ...request, sessionId });
    parts.attempts.at(sessionId, "1").wasGranted = true;
  }
  now = 1_500;
  await renewSession(parts, { sessionId: "renewed", acknowledged: [], limitMs: 100 });
  now = 2_500;
  await openSession(parts, { ...request, sessionId: "next" });
  expect(parts.attempts.find("renewed", "1")).toBeDefined();
  expect(parts.attempts.find("left", "1")).toBeUndefined();
});
