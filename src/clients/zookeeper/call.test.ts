// Goal: if a caller learns that nothing was sent, that stays true, also if concurrent requests
// share a message. Method: a link that records what it is given, on a manual clock.

import { expect, test } from "vitest";
import { Batch } from "../../stores/zookeeper/batch.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { type Call, within } from "./call.ts";
import { JuteReader, JuteWriter } from "./jute.ts";
import type { Link } from "./link.ts";
import { type Message, remove, requestFrame } from "./messages.ts";
import { ConnectionLostError, type Reply } from "./wire.ts";

const OK: Reply = { zxid: 1n, error: 0, body: new JuteReader(Buffer.alloc(0)) };

/** The part of a link that a call needs. */
class FakeLink {
  readonly place = "nowhere";
  readonly sent: string[] = [];
  isConnected = true;
  connecting: Promise<void> = Promise.resolve();
  reply: (message: Message) => Promise<Reply> = async () => OK;

  async connected(): Promise<void> {
    await this.connecting;
    this.isConnected = true;
  }

  mark(): object {
    return {};
  }

  dropSilent(): void {}

  send(message: Message): Promise<Reply> {
    this.sent.push(requestFrame(1, message).toString("latin1"));
    return this.reply(message);
  }
}

function setUp(): { clock: ManualClock; fake: FakeLink; link: Link } {
  const fake = new FakeLink();
  return { clock: new ManualClock(), fake, link: fake as unknown as Link };
}

const codeOf = (error: { applied?: string }): string | undefined => error.applied;

test("a request whose limit passes before it is connected is never sent", async () => {
  const { clock, fake, link } = setUp();
  let connect: () => void = () => undefined;
  fake.isConnected = false;
  fake.connecting = new Promise((resolve) => {
    connect = resolve;
  });
  const ended = within(clock, link, 100, (call) => call.send(remove("/a"))).catch(codeOf);
  await clock.advance(100);
  expect(await ended).toBe("no");
  connect();
  await clock.advance(1);
  expect(fake.sent).toEqual([]);
});

test("a request that was sent in time continues after its limit, and its outcome is unknown", async () => {
  const { clock, fake, link } = setUp();
  let arrive: (reply: Reply) => void = () => undefined;
  fake.reply = () =>
    new Promise((resolve) => {
      arrive = resolve;
    });
  const work = async (call: Call): Promise<void> => {
    await call.send(remove("/a"));
    await call.send(remove("/b"));
  };
  const ended = within(clock, link, 100, work).catch(codeOf);
  await clock.advance(100);
  expect(await ended).toBe("unknown");
  arrive(OK);
  await clock.advance(1);
  expect(fake.sent).toHaveLength(2);
});

test("concurrent steps share a message, without those whose limit has passed", async () => {
  const { clock, fake, link } = setUp();
  // The event loop is so busy that the turn ends after the limit.
  clock.soon = (callback) => void clock.setTimer(callback, 5);
  const batch = new Batch(clock);
  const parts = (name: string): readonly [Message] => [remove(`/${name}`)];
  // The answer to two removals, as the server writes it.
  const answer = new JuteWriter();
  for (let part = 0; part < 2; part += 1) answer.int(2).bool(false).int(0);
  const body = answer.int(-1).bool(true).int(-1).frame().subarray(4);
  fake.reply = async () => ({ ...OK, body: new JuteReader(Buffer.from(body)) });
  const take = (name: string, limitMs: number): Promise<unknown> =>
    within(clock, link, limitMs, (call) =>
      batch.take({ call, key: `/p ${name}`, parts: parts(name) }),
    ).catch(codeOf);
  const outcomes = [take("alone", 100), take("two", 100), take("late", 1), take("four", 100)];
  await clock.advance(10);
  const [, two, late, four] = await Promise.all(outcomes);
  expect([two, late, four]).toEqual([
    { error: 0, failedAt: -1, parts: [{}] },
    "no",
    { error: 0, failedAt: -1, parts: [{}] },
  ]);
  expect(fake.sent).toHaveLength(2);
  expect(fake.sent[1]).toMatch(/two.*four/s);
  expect(fake.sent.join()).not.toMatch(/late/);
});

test("if a shared message is lost, the outcome of each step is unknown, and none is sent again", async () => {
  const { clock, fake, link } = setUp();
  const batch = new Batch(clock);
  let lose: (error: Error) => void = () => undefined;
  const lost = new Promise<never>((_, reject) => {
    lose = reject;
  });
  fake.reply = () => (fake.sent.length === 1 ? Promise.resolve(OK) : lost);
  const outcomes = ["one", "two", "three"].map((name) =>
    within(clock, link, 100, (call) =>
      batch.take({ call, key: `/p ${name}`, parts: [remove(`/${name}`)] }),
    ).catch(codeOf),
  );
  await clock.advance(1);
  lose(new ConnectionLostError("reset"));
  await clock.advance(1);
  expect((await Promise.all(outcomes)).slice(1)).toEqual(["unknown", "unknown"]);
  expect(fake.sent).toHaveLength(2);
});
