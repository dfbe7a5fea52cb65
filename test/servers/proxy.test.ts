// Goal: the proxy affects a connection exactly as the fault tests assume. Method: an echo server
// and clients on real sockets. The only assumption about time is that loopback answers eventually.
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { until } from "./ask.ts";
import { connectEcho, type Echo, type EchoClient, startEcho, waitForEnd } from "./echo.ts";
import { startProxy, type TcpProxy } from "./proxy.ts";

/** Long enough for an unexpected message to arrive. */
const SILENCE_MS = 100;

let echo: Echo;
let proxy: TcpProxy;

beforeEach(async () => {
  echo = await startEcho();
  proxy = await startProxy(echo);
});

afterEach(async () => {
  await proxy[Symbol.asyncDispose]();
  await echo[Symbol.asyncDispose]();
});

const join = (): EchoClient => connectEcho(proxy.port);

async function joined(): Promise<EchoClient> {
  const client = join();
  client.socket.write("hello");
  await client.receive(5);
  return client;
}

async function becomes<T>(value: () => T, expected: T): Promise<void> {
  await expect.poll(value, { interval: 2, timeout: 10_000 }).toBe(expected);
}

describe("forwarding", () => {
  test("the URL of the proxy is that of the server with another address", () => {
    expect(proxy.url).toBe(`echo://127.0.0.1:${proxy.port}/x`);
  });

  test("bytes pass both ways and are counted", async () => {
    const client = await joined();
    client.socket.write("again");
    await client.receive(10);
    expect(proxy.counts()).toEqual({
      connections: 1,
      open: 1,
      requests: { chunks: 2, bytes: 10, droppedBytes: 0 },
      replies: { chunks: 2, bytes: 10, droppedBytes: 0 },
    });
  });

  test("a megabyte each way arrives complete and in order, even with a slow reader", async () => {
    const sent = Array.from({ length: 1 << 17 }, (_, index) => String(index).padStart(8)).join("");
    const client = join();
    client.socket.pause();
    client.socket.end(sent);
    await sleep(SILENCE_MS);
    client.socket.resume();
    expect(await client.ended).toBe("closed");
    expect(client.received() === sent).toBe(true);
  });

  test("the end of one side reaches the other, which may still send", async () => {
    const client = await joined();
    client.socket.end("last");
    expect(await client.ended).toBe("closed");
    expect(client.received()).toBe("hellolast");
    await becomes(() => proxy.counts().open, 0);
  });

  test("a reset by the server reaches the client", async () => {
    const client = await joined();
    echo.accepted[0]?.resetAndDestroy();
    expect(await client.ended).toBe("reset");
  });

  test("a reset by the client reaches the server", async () => {
    const client = await joined();
    const end = waitForEnd(echo.accepted[0]);
    client.socket.resetAndDestroy();
    expect(await end).toBe("reset");
    await becomes(() => proxy.counts().open, 0);
  });

  test("the client is reset if the server does not listen", async () => {
    echo.close();
    const client = join();
    expect(await client.ended).toBe("reset");
  });
});

test("strand: an open connection silently loses everything, even its end, and a new one works", async () => {
  const client = await joined();
  proxy.strand();
  client.socket.end("lost");
  expect((await joined()).received()).toBe("hello");
  await sleep(SILENCE_MS);
  expect(echo.received()).toBe("hellohello");
  expect(client.received()).toBe("hello");
  expect(client.socket.readyState).toBe("readOnly");
  expect(echo.accepted[0]?.readyState).toBe("open");
});

describe("cut", () => {
  test("nothing passes, and neither side is notified", async () => {
    const client = await joined();
    proxy.cut();
    client.socket.write("lost");
    echo.accepted[0]?.write("lost too");
    await sleep(SILENCE_MS);
    expect(echo.received()).toBe("hello");
    expect(client.received()).toBe("hello");
    expect(client.socket.readyState).toBe("open");
    expect(echo.accepted[0]?.readyState).toBe("open");
    expect(proxy.counts().requests.droppedBytes).toBe(4);
    expect(proxy.counts().replies.droppedBytes).toBe(8);
  });

  test("the end of a client's stream does not reach the server before heal", async () => {
    const client = await joined();
    proxy.cut();
    client.socket.destroy();
    await sleep(SILENCE_MS);
    expect(echo.accepted[0]?.readyState).toBe("open");
    await proxy.heal();
    await waitForEnd(echo.accepted[0]);
  });

  test("a connection made during the cut is accepted, and the server does not see it", async () => {
    proxy.cut();
    const client = join();
    client.socket.write("lost");
    await once(client.socket, "connect");
    await sleep(SILENCE_MS);
    expect(echo.accepted).toHaveLength(0);
    expect(client.socket.readyState).toBe("open");
    await proxy.heal();
    expect(await client.ended).toBe("reset");
  });

  test("heal resets a connection that lost bytes, and keeps one that lost none", async () => {
    const [talker, listener] = [await joined(), await joined()];
    proxy.cut();
    talker.socket.write("lost");
    await becomes(() => proxy.counts().requests.droppedBytes, 4);
    await proxy.heal();
    expect(await talker.ended).toBe("reset");
    listener.socket.write("still");
    expect(await listener.receive(10)).toBe("hellostill");
  });

  test("a cut of requests lets replies pass", async () => {
    const client = await joined();
    proxy.cut("requests");
    client.socket.write("lost");
    echo.accepted[0]?.write("push");
    expect(await client.receive(9)).toBe("hellopush");
    await sleep(SILENCE_MS);
    expect(echo.received()).toBe("hello");
  });

  test("a cut of replies lets requests pass", async () => {
    const client = await joined();
    proxy.cut("replies");
    client.socket.write("done");
    await becomes(echo.received, "hellodone");
    await sleep(SILENCE_MS);
    expect(client.received()).toBe("hello");
  });
});

describe("hold", () => {
  test("heal delivers held data in order, on the same connection", async () => {
    const client = await joined();
    proxy.hold();
    client.socket.write("one");
    await sleep(SILENCE_MS);
    client.socket.write("two");
    await sleep(SILENCE_MS);
    expect(echo.received()).toBe("hello");
    await proxy.heal();
    expect(await client.receive(11)).toBe("helloonetwo");
  });

  test("a connection made during a hold reaches the server after heal", async () => {
    proxy.hold();
    const client = join();
    client.socket.write("late");
    await sleep(SILENCE_MS);
    expect(echo.accepted).toHaveLength(0);
    await proxy.heal();
    expect(await client.receive(4)).toBe("late");
  });

  test("the proxy stops reading from a sender when its buffer is full", async () => {
    const client = await joined();
    proxy.hold("requests");
    client.socket.write(Buffer.alloc(64 << 20));
    await sleep(SILENCE_MS);
    expect(proxy.counts().requests.bytes).toBeLessThan(4 << 20);
    proxy.cut();
  });
});

describe("delay", () => {
  test("each direction is delayed by this time, and the order is kept", async () => {
    const client = await joined();
    proxy.delay(60);
    const begunAt = performance.now();
    const { bytes } = proxy.counts().requests;
    client.socket.write("one");
    await until("the proxy has read it", async () => proxy.counts().requests.bytes > bytes, 5_000);
    proxy.delay(20);
    client.socket.write("two");
    expect(await client.receive(11)).toBe("helloonetwo");
    expect(performance.now() - begunAt).toBeGreaterThanOrEqual(79);
  });

  test("heal delivers delayed data at once", async () => {
    const client = await joined();
    proxy.delay(60_000);
    client.socket.write("soon");
    await sleep(SILENCE_MS);
    await proxy.heal();
    expect(await client.receive(9)).toBe("hellosoon");
  });
});

describe("other faults", () => {
  test("duplicate sends every request twice", async () => {
    const client = await joined();
    proxy.duplicate();
    client.socket.write("ab");
    expect(await client.receive(9)).toBe("helloabab");
    expect(echo.received()).toBe("helloabab");
  });

  test("reset resets both sides of every connection, and new connections work", async () => {
    const client = await joined();
    const end = waitForEnd(echo.accepted[0]);
    proxy.reset();
    expect(await client.ended).toBe("reset");
    expect(await end).toBe("reset");
    await joined();
  });

  test("refuse rejects new connections and keeps the open ones", async () => {
    const client = await joined();
    proxy.refuse();
    expect(await join().ended).toBe("refused");
    client.socket.write("still");
    await client.receive(10);
    await proxy.heal();
    await joined();
  });

  test("dispose closes all connections and the listener", async () => {
    const client = await joined();
    proxy.hold();
    client.socket.write("never");
    await proxy[Symbol.asyncDispose]();
    await client.ended;
    expect(await join().ended).toBe("refused");
    expect(proxy.counts().open).toBe(0);
  });
});
