// Goal: a waiter checks the holder when its time is up, however late the answer came, and only
// while it waits. Method: a manual clock and a mock of the subscriptions.
import { expect, test } from "vitest";
import { sign } from "../../clients/redis/digest.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import type { Grant, SessionEvents } from "../contract.ts";
import { encodeFact } from "../shared/facts.ts";
import type { Channels, Listener } from "./channels.ts";
import { Notices } from "./wait.ts";

const REQUEST = { resource: "r", attempt: "s.1", sessionId: "s", limitMs: 1_000 };

function makeNotices(answers: string[] = []): {
  readonly clock: ManualClock;
  readonly notices: Notices;
  readonly checkedAt: number[];
  readonly grants: Grant[];
  publish(text: string): void;
} {
  const clock = new ManualClock();
  const checkedAt: number[] = [];
  const grants: Grant[] = [];
  let publish: Listener = () => undefined;
  const channels = {
    isSubscribed: () => true,
    listen: async (_name: string, listener: Listener) => {
      publish = listener;
      return () => undefined;
    },
  } as unknown as Channels;
  const notices = new Notices({
    channels,
    channel: "f",
    secret: "secret",
    clock,
    confirm: async (_sessionId, { token }) => token !== 13n,
    checkExpiry: async () => {
      checkedAt.push(clock.now());
      return answers.shift() ?? "-";
    },
  });
  const events: SessionEvents = {
    granted: (grant) => void grants.push(grant),
    lost: () => undefined,
    wanted: () => undefined,
  };
  notices.openSession("s", events);
  return {
    clock,
    notices,
    checkedAt,
    grants,
    publish: (text) => publish(sign("secret", text) + text),
  };
}

function toGrantFact(token: bigint): string {
  const grant = { resource: "r", attempt: "s.1", token };
  return encodeFact({ kind: "granted", session: "s", grant });
}

test("L1: a check is planned from when the request was sent, and repeated as the server answers", async () => {
  const { clock, notices, checkedAt } = makeNotices(["100"]);
  const sentAt = clock.now();
  await clock.advance(300);
  notices.queued(REQUEST, "500", sentAt);
  await clock.advance(1_000);
  expect(checkedAt.map((at) => at - sentAt)).toEqual([500, 600]);
});

test("no check is made after the last attempt has left or was granted", async () => {
  const { clock, notices, checkedAt, publish } = makeNotices();
  notices.queued(REQUEST, "500", clock.now());
  notices.queued({ ...REQUEST, attempt: "s.2" }, "500", clock.now());
  notices.left("r", "s.2");
  publish(toGrantFact(5n));
  await clock.advance(1_000);
  expect(checkedAt).toEqual([]);
});

test("a session that ended is neither checked for nor notified", async () => {
  const { clock, notices, checkedAt, grants, publish } = makeNotices();
  notices.queued(REQUEST, "500", clock.now());
  notices.endSession("s");
  publish(toGrantFact(5n));
  await clock.advance(1_000);
  expect([checkedAt, grants]).toEqual([[], []]);
});

test("a grant that cannot be confirmed is not reported", async () => {
  const { clock, grants, publish } = makeNotices();
  publish(toGrantFact(13n));
  publish(toGrantFact(14n));
  publish("junk");
  await clock.advance(1);
  expect(grants.map(({ token }) => token)).toEqual([14n]);
});
