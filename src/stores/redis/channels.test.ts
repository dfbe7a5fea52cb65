// Goal: whoever listens hears, and whoever stops does no harm, whatever becomes of the connection for messages. Method: a wire whose
// connections are made, or fail, when the test says so.
import { expect, onTestFinished, test } from "vitest";
import type { ChannelWire, Wire } from "../../clients/redis/wire.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Channels } from "./channels.ts";

test("leaving while a connection is being made that fails is no unhandled rejection", async () => {
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

/** Each connection fails until the test has it made. */
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

test("one whose connection could not be made hears over the one that the next makes, and is told to look", async () => {
  const { channels, subscribed, state } = refusing();
  const told: (string | undefined)[] = [];
  await channels.listen("one", (message) => told.push(message));
  expect(channels.hears("one")).toBe(false);
  state.isDown = false;
  await channels.listen("other", () => undefined);
  await new Promise(setImmediate);
  expect(subscribed).toContain("one");
  expect([channels.hears("one"), channels.hears("other")]).toEqual([true, true]);
  expect(told).toEqual([undefined]);
});

test("where nobody else comes it is tried again every second, and not when all have left", async () => {
  const { clock, channels, state } = refusing();
  const told: (string | undefined)[] = [];
  const leave = await channels.listen("one", (message) => told.push(message));
  await clock.advance(2_000);
  expect(state.tries).toBe(3);
  state.isDown = false;
  await clock.advance(1_000);
  expect([told, channels.hears("one")]).toEqual([[undefined], true]);
  leave();
  const gone = refusing();
  (await gone.channels.listen("one", () => undefined))();
  await gone.clock.advance(5_000);
  expect(gone.state.tries).toBe(1);
});
