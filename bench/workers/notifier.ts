// Sends or receives the bare notifications of one engine. Orders: `listen` to a topic, `receive`
// the next notification, `send` one. The answers are times on the clock that all processes of the
// host share.

import { hostMs } from "../../test/support/faults/history.ts";
import { openNotifier } from "../notifications.ts";
import type { ServerEngine } from "../servers.ts";

const { engine, url } = JSON.parse(process.argv[2] ?? "") as { engine: ServerEngine; url: string };
const notifier = await openNotifier[engine](url);
const received: number[] = [];
let onReceived: () => void = () => undefined;

async function receive(): Promise<number> {
  for (;;) {
    const at = received.shift();
    if (at !== undefined) return at;
    await new Promise<void>((resolve) => {
      onReceived = resolve;
    });
  }
}

async function send(topic: string): Promise<number> {
  const at = hostMs();
  await notifier.send(topic);
  return at;
}

async function listen(topic: string): Promise<string> {
  await notifier.listen(topic, () => {
    received.push(hostMs());
    onReceived();
  });
  return "listening";
}

process.on("message", async (order: { listen?: string; send?: string }) => {
  if (order.listen !== undefined) process.send?.(await listen(order.listen));
  else if (order.send !== undefined) process.send?.(await send(order.send));
  else process.send?.(await receive());
});
process.send?.("ready");
