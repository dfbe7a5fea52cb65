// The store's seam to Redis over simulated connections: what the adapter of ioredis makes of its clients.

import type { ChannelEvents, ChannelWire, Wire } from "../../../src/clients/redis/wire.ts";
import { Connection, type ConnectionParts } from "./connection.ts";

export async function simulatedWire(parts: ConnectionParts): Promise<Wire> {
  const connection = new Connection(parts);
  await connection.connect();
  return {
    library: "ioredis",
    isCluster: false,
    send: (words) => connection.send(words),
    duplicate: () => simulatedWire(parts),
    openChannels: (events) => simulatedChannels(parts, events),
    reset: () => connection.reset(),
    close: () => connection.close(),
  };
}

async function simulatedChannels(
  parts: ConnectionParts,
  events: ChannelEvents,
): Promise<ChannelWire> {
  const { trace, client } = parts;
  const onOrder = (from: number): void => {
    // One of an earlier life may still be told of.
    if (!client.isDead) trace.note(client.name, { kind: "listens", from });
  };
  const connection = new Connection(parts, { ...events, onOrder });
  await connection.connect();
  const send = async (command: string, channel: string, isPattern: boolean): Promise<void> => {
    await connection.send([isPattern ? `p${command}` : command, channel]);
  };
  return {
    subscribe: (channel, isPattern) => send("subscribe", channel, isPattern),
    unsubscribe: (channel, isPattern) => send("unsubscribe", channel, isPattern),
    reset: () => connection.reset(),
    close: () => connection.close(),
  };
}
