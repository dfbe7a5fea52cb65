// Goal: whoever stops listening does no harm, whatever becomes of the connection for messages. Method: a wire whose connections
// are made, or fail, when the test says so.
import { expect, onTestFinished, test } from "vitest";
import { Channels } from "./channels.ts";
import type { ChannelWire, Wire } from "./wire.ts";

test("leaving while a connection is being made that fails is no unhandled rejection", async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown): void => void unhandled.push(reason);
  process.on("unhandledRejection", note);
  onTestFinished(() => void process.off("unhandledRejection", note));
  const failures: ((error: Error) => void)[] = [];
  const openChannels = (): Promise<ChannelWire> =>
    new Promise((_, reject) => failures.push(reject));
  const channels = new Channels({ openChannels } as unknown as Wire, "here");
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
