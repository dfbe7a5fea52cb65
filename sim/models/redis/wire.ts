// Implements the store's interface to a Redis client library over simulated connections, as the
// ioredis adapter does over real ones.

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
    // A connection of an earlier process may still get here.
    if (!client.isDead) trace.note(client.name, { kind: "listens", from });
  };
  const connection = new Connection(parts, { ...events, onOrder });
  await connection.connect();
  const send = async (command: string, channel: string): Promise<void> => {
    await connection.send([command, channel]);
  };
  return {
    subscribe: (channel) => send("subscribe", channel),
    unsubscribe: (channel) => send("unsubscribe", channel),
    reset: () => connection.reset(),
    close: () => connection.close(),
  };
}
