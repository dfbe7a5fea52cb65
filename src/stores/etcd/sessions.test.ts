// Goal: a session whose lease ran out between the two requests that open it is tried again by whoever opens it, and is no raw error
// of etcd. Method: members that are a function; found by the simulator (docs/simulator.md).
import { expect, test } from "vitest";
import { isTenureError } from "../../core/errors.ts";
import type { KeepAlives } from "./keep-alive.ts";
import type { Members } from "./members.ts";
import { namesOf } from "./names.ts";
import { leaseGrant } from "./rpc.ts";
import { openSession } from "./sessions.ts";
import { EtcdStatusError } from "./transport.ts";

const request = { sessionId: "5e".repeat(16), holderId: "h", ttlMs: 2_000, limitMs: 100 };

function opening(signing: () => never): Promise<unknown> {
  const call = async (rpc: unknown): Promise<unknown> =>
    rpc === leaseGrant ? { ttl: 2 } : signing();
  const members = { call } as unknown as Members;
  const parts = { members, names: namesOf("tenure/"), keepAlives: {} as KeepAlives, now: () => 0 };
  return openSession(parts, request).catch((error: unknown) => error);
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
