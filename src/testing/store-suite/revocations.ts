// Revocations: every renewal reports a revocation until the holder acknowledges it, and the
// acknowledgement deletes that revocation and no other.

import { ACKNOWLEDGED_MAX, type LeaseRef, type Store } from "../../stores/contract.ts";
import { type Bench, type Client, expect, expectTrue, LIMIT_MS } from "./harness.ts";

export const revocations: Record<string, (bench: Bench) => Promise<void>> = {
  "S6: a revocation is reported until it is acknowledged": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    await one.take("kept");
    const revoked = await takeAndRevoke(one, store, "r");
    for (let renewal = 0; renewal < 3; renewal += 1)
      await expectGone(one, [], [revoked], "no renewal has acknowledged it");
  },

  "an acknowledged revocation is not reported again": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const kept = await one.take("kept");
    const first = await takeAndRevoke(one, store, "first");
    const second = await takeAndRevoke(one, store, "second");
    await expectGone(one, [], [first, second], "both are reported");
    await expectGone(one, [first], [second], "the renewal that acknowledges it reports the rest");
    await expectGone(one, [], [second], "later renewals do not report it either");
    await expectGone(one, [first, second], [], "an acknowledgement may be repeated");
    await expectGone(one, [first, second], [], "also when nothing is left");
    expect((await one.holder("kept"))?.token, kept, "other leases of the session are still held");
  },

  "S5: an acknowledgement of another session or token changes nothing": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const two = await bench.session(await bench.store(), "two");
    const held = { resource: "held", token: await one.take("held") };
    const earlier = await takeAndRevoke(one, store, "r");
    await expectGone(one, [], [earlier], "the first revocation is reported");
    const later = await takeAndRevoke(one, store, "r");
    await expectGone(two, [later, earlier], [], "the other session has no revocations");
    const wrong = [
      { resource: "r", token: later.token + 1n },
      { resource: "other", token: later.token },
      held,
    ];
    await expectGone(one, [earlier, ...wrong], [later], "only the one that was named is deleted");
    await expectGone(one, [], [later], "and the other one is reported as before");
    expect((await one.holder("held"))?.token, held.token, "a held lease is still held");
  },

  "S6: a revocation between a report and its acknowledgement is reported": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const first = await takeAndRevoke(one, store, "first");
    await expectGone(one, [], [first], "the first is reported");
    const second = await takeAndRevoke(one, await bench.store(), "second");
    await expectGone(one, [first], [second], "the second came before the acknowledgement");
    const third = await takeAndRevoke(one, store, "third");
    await expectGone(one, [], [second, third], "the third came after it");
    await expectGone(one, [second, third], [], "all are acknowledged");
    const again = await takeAndRevoke(one, store, "first");
    await expectGone(one, [first], [again], "the same resource, revoked once more");
  },

  "one renewal can acknowledge ACKNOWLEDGED_MAX revocations": async (bench) => {
    const store = await bench.store();
    const one = await bench.session(store, "one");
    const revoked: LeaseRef[] = [];
    for (let index = 0; index <= ACKNOWLEDGED_MAX; index += 1)
      revoked.push(await takeAndRevoke(one, store, `many/${index}`));
    await expectGone(one, [], revoked, "all are reported");
    const rest = revoked.slice(ACKNOWLEDGED_MAX);
    await expectGone(one, revoked.slice(0, ACKNOWLEDGED_MAX), rest, "one is left");
    await expectGone(one, rest, [], "none is left");
  },
};

async function takeAndRevoke(client: Client, revoker: Store, resource: string): Promise<LeaseRef> {
  const ref = { resource, token: await client.take(resource) };
  const outcome = await revoker.revoke({ ...ref, limitMs: LIMIT_MS });
  expect(outcome.kind, "revoked", `${resource} is revoked`);
  return ref;
}

/** The order of `gone` is not specified. */
async function expectGone(
  client: Client,
  acknowledged: readonly LeaseRef[],
  gone: readonly LeaseRef[],
  rule: string,
): Promise<void> {
  const outcome = await client.renew([], acknowledged);
  expectTrue(outcome.kind === "renewed", `${rule}: the session is alive`);
  expect(outcome.kind === "renewed" ? sorted(outcome.gone) : [], sorted(gone), rule);
}

function sorted(refs: readonly LeaseRef[]): LeaseRef[] {
  const byName = [...refs].sort((one, other) => (one.resource < other.resource ? -1 : 1));
  return byName.map(({ resource, token }) => ({ resource, token }));
}
