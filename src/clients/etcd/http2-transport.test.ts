// Goal: a connection that is given up at the very moment in which it is made ends its own request,
// not the process. Method: a real server; the transport is reset between the end of the handshake
// and Node's report of it.
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { createServer } from "node:http2";
import type { AddressInfo, Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../runtime/system.ts";
import { Http2Transport } from "./http2-transport.ts";

test("S7: given up while Node is about to say that it is there", async () => {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const target = { host: "127.0.0.1", port, tls: undefined, connectMs: 5_000 };
  const transport = new Http2Transport(target, systemParts().clock);
  onTestFinished(() => transport.close());
  // Ahead of what node:http2 does at the same event, and so ahead of the report that it puts off.
  const onSocket = (message: unknown): void => {
    const { socket } = message as { socket: Socket };
    socket.once("connect", () => process.nextTick(() => transport.reset()));
  };
  subscribe("net.client.socket", onSocket);
  onTestFinished(() => void unsubscribe("net.client.socket", onSocket));
  const thrown: unknown[] = [];
  const before = process.listeners("uncaughtException");
  process.removeAllListeners("uncaughtException");
  process.on("uncaughtException", (error) => thrown.push(error));
  try {
    const { answer } = transport.call("/etcdserverpb.KV/Range", new Uint8Array(), {});
    await expect(answer).rejects.toThrow();
    // Node's report comes in the turn of the handshake, so it has come by the next one.
    await new Promise((resolve) => setImmediate(resolve));
  } finally {
    process.removeAllListeners("uncaughtException");
    for (const listener of before) process.on("uncaughtException", listener);
  }
  expect(thrown).toEqual([]);
});
