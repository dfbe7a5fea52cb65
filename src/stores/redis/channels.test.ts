// Goal: a listener gets its messages, and one that leaves does no harm, whatever happens to the
// connection. Method: a wire whose connections succeed or fail as the test decides.
import { expect, onTestFinished, test } from "vitest";
import type { ChannelWire, Wire } from "../../clients/redis/wire.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Channels } from "./channels.ts";

test("leaving while the connection fails causes no unhandled rejection", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  const failures: ((error: Error) => void)[] = [];
  const openChannels = (): Promise<ChannelWire> =>
    new Promise((_, reject) => failures.push(reject));
  const channels = new Channels({ openChannels } as unknown as Wire, "here", new ManualClock());
  const refuse = (): void => failures.shift()?.(new Error("connect ECONNREFUSED"));

  const first = channels.listen("one", () => undefined);
  refuse();
  const leave = await first;
  const second = channels.listen("other", () => undefined);
  leave();
  refuse();
  (await second)();
  await new Promise(setImmediate);
  expect(unhandled).toEqual([]);
});

/** A server that refuses connections until the test allows them. */
function refusing(): {
  readonly clock: ManualClock;
  readonly channels: Channels;
  readonly subscribed: string[];
  readonly state: { isDown: boolean; tries: number };
} {
  const clock = new ManualClock();
  const subscribed: string[] = [];
  const state = { isDown: true, tries: 0 };
  const connection = {
    subscribe: async (name: string) => void subscribed.push(name),
    unsubscribe: async () => undefined,
  } as unknown as ChannelWire;
  const openChannels = async (): Promise<ChannelWire> => {
    state.tries += 1;
    if (state.isDown) throw new Error("connect ECONNREFUSED");
    return connection;
  };
  const channels = new Channels({ openChannels } as unknown as Wire, "here", clock);
  return { clock, channels, subscribed, state };
}

test("a listener whose connection failed is subscribed over the next one, and learns that it may have missed messages", async () => {
  const { channels, subscribed, state } = refusing();
  const messages: (string | undefined)[] = [];
  await channels.listen("one", (message) => messages.push(message));
  expect(channels.isSubscribed("one")).toBe(false);
  state.isDown = false;
  await channels.listen("other", () => undefined);
  await new Promise(setImmediate);
  expect(subscribed).toContain("one");
  expect([channels.isSubscribed("one"), channels.isSubscribed("other")]).toEqual([true, true]);
  expect(messages).toEqual([undefined]);
});

test("a failed connection is tried again every second, until the last listener has left", async () => {
  const { clock, channels, state } = refusing();
  const messages: (string | undefined)[] = [];
  const leave = await channels.listen("one", (message) => messages.push(message));
  await clock.advance(2_000);
  expect(state.tries).toBe(3);
  state.isDown = false;
  await clock.advance(1_000);
  expect([messages, channels.isSubscribed("one")]).toEqual([[undefined], true]);
  leave();
  const gone = refusing();
  (await gone.channels.listen("one", () => undefined))();
  await gone.clock.advance(5_000);
  expect(gone.state.tries).toBe(1);
});
