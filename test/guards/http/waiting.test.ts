// Goal: a request waits only for running handlers of earlier holders, only while its client is
// connected, and at most waitMs; and no failure of user code leaves a client without a response.
// Method: real servers on loopback, on every framework, with clients that stop reading or
// disconnect.

import { channel } from "node:diagnostics_channel";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { connect as connectSocket } from "node:net";
import express from "express";
import { afterEach, describe, expect, test, vi } from "vitest";
import type { TokenSource } from "../../../src/guards/guard.ts";
import { httpGuard } from "../../../src/guards/http/index.ts";
import { memoryGuard } from "../../../src/guards/memory/index.ts";
import { listen, plain, put, services, waitFor } from "../../support/guards/http-services.ts";

/** More than the buffers of a loopback connection can hold. */
const LARGE = "x".repeat(20_000_000);

/** The responses of all servers of this process, in the order in which the requests arrived. */
const responses: ServerResponse[] = [];
const collect = (message: unknown): unknown =>
  responses.push((message as { response: ServerResponse }).response);
channel("http.server.request.start").subscribe(collect);

const endings: (() => void)[] = [];
afterEach(() => {
  for (const end of endings.splice(0)) end();
  responses.length = 0;
});

/** Sends a request with this token on its own connection, and never reads the response. */
async function sendAndStopReading(url: string, token: number, body: string): Promise<void> {
  const { hostname, port } = new URL(url);
  const socket = connectSocket(Number(port), hostname);
  endings.push(() => socket.destroy());
  await once(socket, "connect");
  socket.pause();
  socket.write(
    `PUT / HTTP/1.1\r\nHost: ${hostname}\r\nFencing-Token: ${plain(token)}\r\n` +
      `Content-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  );
}

/** A handler that ends only when the test says so, for the body "old". */
function stuckHandler(): { begun: string[]; finish(): void; work(body: string): Promise<void> } {
  let finish = (): void => undefined;
  const finished = new Promise<void>((resolve) => {
    finish = resolve;
  });
  const handler = {
    begun: [] as string[],
    finish: () => finish(),
    work: async (body: string): Promise<void> => {
      handler.begun.push(body);
      if (body === "old") await finished;
    },
  };
  return handler;
}

describe.each(Object.entries(services))("a waiting request on %s", (_name, start) => {
  test("does not wait until a former holder has read its response", async () => {
    let answered = false;
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, (body) => {
      if (body !== "large") return "done";
      answered = true;
      return LARGE;
    });
    await sendAndStopReading(url, 1, "large");
    await waitFor(() => answered);
    expect((await put(url, plain(2))).status).toBe(200);
  });

  test("is answered with 503 after waitMs, and admitted once the former handler has ended", async () => {
    const { work, begun, finish } = stuckHandler();
    const url = await start({ guard: memoryGuard(), resource: "settlement", waitMs: 20 }, work);
    const old = put(url, plain(1), "old");
    await waitFor(() => begun.length === 1);
    const answer = await put(url, plain(2), "new");
    expect(answer.status).toBe(503);
    expect(answer.headers.get("retry-after")).toBe("1");
    expect(await answer.json()).toMatchObject({ type: "urn:tenure:wait-timeout", status: 503 });
    finish();
    expect((await old).status).toBe(200);
    expect((await put(url, plain(2), "new")).status).toBe(200);
    expect(begun).toEqual(["old", "new"]);
  });

  test("stops waiting when its client disconnects", async () => {
    const inner = memoryGuard();
    const asked: bigint[] = [];
    const guard = {
      highest: inner.highest,
      advance: (given?: TokenSource) => {
        asked.push(given?.token ?? 0n);
        inner.advance(given);
      },
    };
    const { work, begun, finish } = stuckHandler();
    const url = await start({ guard, resource: "settlement" }, work);
    const old = put(url, plain(1), "old");
    await waitFor(() => begun.length === 1);
    const gone = new AbortController();
    const headers = { "Fencing-Token": plain(2), "content-type": "text/plain" };
    const waiting = fetch(url, { method: "PUT", body: "new", headers, signal: gone.signal });
    await waitFor(() => asked.includes(2n));
    gone.abort();
    await expect(waiting).rejects.toThrow("aborted");
    await waitFor(() => responses.at(-1)?.closed === true);
    finish();
    expect((await old).status).toBe(200);
    // A request that was still waiting would now be compared a second time.
    expect((await put(url, plain(3), "newest")).status).toBe(200);
    expect(asked).toEqual([1n, 2n, 3n]);
    expect(begun).toEqual(["old", "newest"]);
  });

  test("S8: gets 503 even if onError throws or rejects, and a process warning is emitted", async () => {
    const warnings: string[] = [];
    const spy = vi.spyOn(process, "emitWarning");
    spy.mockImplementation((warning) => void warnings.push(String(warning)));
    endings.push(() => spy.mockRestore());
    const failure = new Error("no connection");
    const guard = { advance: () => Promise.reject(failure), highest: () => undefined };
    const report = [
      () => {
        throw new Error("onError fails");
      },
      () => Promise.reject(new Error("onError fails later")),
    ];
    for (const onError of report) {
      const url = await start({ guard, resource: "settlement", onError }, () => undefined);
      expect((await put(url, plain(1))).status).toBe(503);
    }
    await waitFor(() => warnings.length >= 4);
    expect(warnings.filter((text) => text.includes("onError"))).toHaveLength(2);
    expect(warnings.filter((text) => text.includes("The guard of httpGuard()"))).toHaveLength(2);
  });
});

describe("the HTTP guard of node:http", () => {
  test("a handler without a promise ends when its response is written, not when the client has read it", async () => {
    let answered = false;
    const fence = httpGuard({ guard: memoryGuard(), resource: "settlement" });
    const url = await listen(
      createServer(
        fence.guarded((_req: IncomingMessage, res: ServerResponse) => {
          setImmediate(() => {
            res.end(answered ? "done" : LARGE);
            answered = true;
          });
        }),
      ),
    );
    await sendAndStopReading(url, 1, "");
    await waitFor(() => answered);
    expect((await put(url, plain(2))).status).toBe(200);
  });

  test("a handler with a promise ends with the promise, even if the response is still being written", async () => {
    const fence = httpGuard({ guard: memoryGuard(), resource: "settlement" });
    const handler = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
      if (req.method === "PUT") res.end("done");
      else res.write("begun");
    };
    const url = await listen(createServer(fence.guarded(handler)));
    const open = await fetch(url, { headers: { "Fencing-Token": plain(1) } });
    expect((await put(url, plain(2))).status).toBe(200);
    await open.body?.cancel();
  });

  test("S2: two HTTP guards with the same inner guard share their turns", async () => {
    const { work, begun, finish } = stuckHandler();
    const guard = memoryGuard();
    const start = services["node:http"] as (typeof services)[string];
    const [one, two] = [
      await start({ guard, resource: "settlement" }, work),
      await start({ guard, resource: "settlement" }, work),
    ];
    const old = put(one, plain(1), "old");
    await waitFor(() => begun.length === 1);
    const newer = put(two, plain(2), "new");
    await waitFor(async () => (await put(one, plain(1), "late")).status === 409);
    expect(begun).not.toContain("new");
    finish();
    expect([(await old).status, (await newer).status]).toEqual([200, 200]);
  });
});

describe("a response that other code has begun or ended", () => {
  const guard = memoryGuard();
  guard.advance({ resource: "settlement", token: 9n });
  const fence = httpGuard({ guard, resource: "settlement" });
  const never = (): void => expect.unreachable();

  test.each([
    [
      "node:http",
      () =>
        createServer((req, res) => {
          res.writeHead(200);
          res.flushHeaders();
          void fence.guarded(never)(req, res);
        }),
    ],
    [
      "Express",
      () => {
        const app = express();
        app.use((_req, res, next) => {
          res.flushHeaders();
          next();
        });
        app.use(fence.express, never);
        return createServer(app);
      },
    ],
  ])("S8: is aborted if its head was sent and the token is stale (%s)", async (_name, start) => {
    const answer = await put(await listen(start()), plain(8));
    expect(answer.status).toBe(200);
    await expect(answer.text()).rejects.toThrow("terminated");
  });

  test("is left as it is if it ended while the request waited, and the handler does not start", async () => {
    const { work, begun, finish } = stuckHandler();
    const own = httpGuard({ guard: memoryGuard(), resource: "settlement" });
    const handler = own.guarded(async (req: IncomingMessage, res: ServerResponse) => {
      await work(String(req.headers["x-body"]));
      res.end("done");
    });
    const url = await listen(
      createServer((req, res) => {
        void handler(req, res);
        if (req.headers["x-body"] === "new") setTimeout(() => res.writeHead(504).end(LARGE), 20);
      }),
    );
    const send = (token: number, body: string): Promise<Response> =>
      fetch(url, { headers: { "Fencing-Token": plain(token), "x-body": body } });
    const old = send(1, "old");
    await waitFor(() => begun.length === 1);
    const answer = await send(2, "new");
    expect([answer.status, (await answer.text()).length]).toEqual([504, LARGE.length]);
    finish();
    expect((await old).status).toBe(200);
    expect((await send(2, "newer")).status).toBe(200);
    expect(begun).toEqual(["old", "newer"]);
  });
});
