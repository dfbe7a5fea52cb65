// Goal: a handler runs only for a token that is not stale, and never beside or behind one of a newer token in the same
// process. Method: real servers on loopback (node:http, Express, Fastify, Hono), asked with the real fetch; what the
// handlers did is what counts.

import { generateKeyPairSync } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach, describe, expect, test } from "vitest";
import { fencedFetch, type HttpGuardOptions, httpGuard } from "../src/guards/http.ts";
import { type MemoryGuard, memoryGuard } from "../src/guards/memory.ts";
import { signer, verifier } from "../src/guards/signed.ts";
import { connect, currentLease } from "../src/index.ts";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

type Work = (body: string) => unknown;

/** A service on each framework that runs the work behind the guard; gives back its URL. */
const services: Record<string, (options: HttpGuardOptions, work: Work) => Promise<string>> = {
  "node:http": (options, work) => {
    const fence = httpGuard(options);
    const handler = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
      let body = "";
      for await (const chunk of req) body += chunk;
      await work(body);
      res.end("done");
    };
    return listen(createServer(fence.guarded(handler)));
  },
  "Express (wrapped handler)": (options, work) => {
    const app = express();
    app.put(
      "/",
      express.text(),
      httpGuard(options).guarded(async (req: express.Request, res: express.Response) => {
        await work(String(req.body));
        res.send("done");
      }),
    );
    return listen(createServer(app));
  },
  "Express (middleware)": (options, work) => {
    const app = express();
    app.use(express.text(), httpGuard(options).express);
    app.put("/", async (req, res) => {
      await work(String(req.body));
      res.send("done");
    });
    return listen(createServer(app));
  },
  Fastify: async (options, work) => {
    const app = fastify();
    endings.push(() => app.close());
    app.put("/", { preHandler: httpGuard(options).fastify }, async (req) => {
      await work(String(req.body));
      return "done";
    });
    return app.listen({ port: 0, host: "127.0.0.1" });
  },
  Hono: async (options, work) => {
    const app = new Hono();
    app.use(httpGuard(options).hono);
    app.put("/", async (c) => {
      await work(await c.req.text());
      return c.text("done");
    });
    const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
    await once(server, "listening");
    endings.push(() => server.close());
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  },
};

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function put(url: string, header?: string | undefined, body = "x"): Promise<Response> {
  const headers: Record<string, string> = { "content-type": "text/plain" };
  if (header !== undefined) headers["Fencing-Token"] = header;
  return fetch(url, { method: "PUT", body, headers });
}
const plain = (token: bigint | number | string, resource = "settlement"): string =>
  `resource="${resource}", token=${token}`;

describe.each(Object.entries(services))("the HTTP guard on %s", (_name, start) => {
  test("S2: admits equal and newer tokens, answers a stale one with 409 and both numbers", async () => {
    const done: string[] = [];
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, (body) =>
      done.push(body),
    );
    expect(await (await put(url, plain(5), "five")).text()).toBe("done");
    expect((await put(url, plain(5), "five again")).status).toBe(200);
    const large = 2n ** 100n;
    expect((await put(url, plain(large), "large")).status).toBe(200);
    const late = await put(url, plain(large - 1n), "late");
    expect(late.status).toBe(409);
    expect(late.headers.get("content-type")).toMatch("application/problem+json");
    expect(await late.json()).toMatchObject({
      type: "urn:tenure:stale-token",
      status: 409,
      resource: "settlement",
      offered: String(large - 1n),
      highest: String(large),
    });
    expect(done).toEqual(["five", "five again", "large"]);
  });

  test("a request without a token gets 428, one for another resource 403, an unreadable one 400", async () => {
    const done: string[] = [];
    const guard = memoryGuard();
    const url = await start({ guard, resource: "settlement" }, (body) => done.push(body));
    const answers = [
      [undefined, 428],
      ["", 428],
      [plain(5, "other"), 403],
      ["4720", 400],
      [plain("1.5"), 400],
      [plain("-1"), 400],
      [plain("0"), 400],
      [plain("1e3"), 400],
      [plain("9".repeat(39)), 400],
      [plain("1".repeat(40)), 400],
      [`${plain(5)}, ${plain(6)}`, 400],
      [`${plain(5)}; x=1`, 400],
      ["token=5", 400],
      ["resource=settlement, token=5", 400],
      [`resource="${"x".repeat(2_000)}", token=5`, 400],
      ['signed="tenure1.a.b.c"', 400],
    ] as const;
    for (const [header, status] of answers) {
      const answer = await put(url, header);
      expect([header, answer.status]).toEqual([header, status]);
      expect(answer.headers.get("content-type")).toMatch("application/problem+json");
      expect(await answer.json()).toMatchObject({ status });
    }
    expect(done).toEqual([]);
    expect(guard.highest("settlement")).toBeUndefined();
  });

  test("guards inside the handler find the token, and currentLease() stays empty there", async () => {
    const inner = memoryGuard();
    let lease: unknown = "not asked";
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, async () => {
      await new Promise((resolve) => setTimeout(resolve, 1));
      lease = currentLease();
      inner.write(() => undefined);
    });
    expect((await put(url, plain(7))).status).toBe(200);
    expect(inner.highest("settlement")).toBe(7n);
    expect(lease).toBeUndefined();
  });

  test("S2: a newer token waits for the handlers of older ones, and these start no more", async () => {
    const story: string[] = [];
    let finish = (): void => undefined;
    const url = await start({ guard: memoryGuard(), resource: "settlement" }, async (body) => {
      story.push(`begin ${body}`);
      if (body === "old") {
        await new Promise<void>((resolve) => {
          finish = resolve;
        });
      }
      story.push(`end ${body}`);
    });
    const old = put(url, plain(1), "old");
    await waitFor(() => story.length === 1);
    // Of the same term: side by side.
    expect((await put(url, plain(1), "twin")).status).toBe(200);
    const newer = put(url, plain(2), "new");
    // Refused from the moment the newer one has come, although that has not begun.
    await waitFor(async () => (await put(url, plain(1), "late")).status === 409);
    const begun = story.filter((line) => line === "begin new");
    finish();
    expect((await old).status).toBe(200);
    expect((await newer).status).toBe(200);
    expect(begun).toEqual([]);
    const order = story.filter((line) => !line.endsWith("twin") && !line.endsWith("late"));
    expect(order).toEqual(["begin old", "end old", "begin new", "end new"]);
    // A "late" that came before the newer one was admitted rightly; none is behind it.
    expect(story.indexOf("begin new")).toBeGreaterThan(story.lastIndexOf("end late"));
  });
});

async function waitFor(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 2_000; tries += 1) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("It never came true.");
}

const node = services["node:http"] as (typeof services)[string];

describe("the HTTP guard", () => {
  test("S2: a slow guard lets no older handler start behind a newer one", async () => {
    // Every raise takes a while, some longer than others: the comparisons overlap.
    const inner = memoryGuard();
    let turn = 0;
    const slow = {
      highest: inner.highest,
      raise: async (source: Parameters<MemoryGuard["raise"]>[0]) => {
        turn += 1;
        const delay = (turn * 7) % 5;
        await new Promise((resolve) => setTimeout(resolve, delay));
        inner.raise(source);
        await new Promise((resolve) => setTimeout(resolve, (turn * 3) % 7));
      },
    };
    const running = new Set<number>();
    const faults: string[] = [];
    const ended: number[] = [];
    let newest = 0;
    const url = await node({ guard: slow, resource: "settlement" }, async (body) => {
      const token = Number(body);
      if (token < newest) faults.push(`${token} began behind ${newest}`);
      newest = Math.max(newest, token);
      for (const other of running) if (other !== token) faults.push(`${token} beside ${other}`);
      running.add(token);
      await new Promise((resolve) => setTimeout(resolve, 3));
      running.delete(token);
      ended.push(token);
    });
    const requests = Array.from(
      { length: 60 },
      (_, index) => 1 + ((index * 17) % 12) + (index >> 2),
    );
    const answers = await Promise.all(
      requests.map((token) => put(url, plain(token), String(token))),
    );
    const statuses = answers.map((answer) => answer.status);
    expect(faults).toEqual([]);
    expect(new Set(statuses)).toEqual(new Set([200, 409]));
    expect(ended.length).toBe(statuses.filter((status) => status === 200).length);
  });

  test("without `exclusive` only the comparison is made", async () => {
    let finish = (): void => undefined;
    const done: string[] = [];
    const url = await node(
      { guard: memoryGuard(), resource: "r", exclusive: false },
      async (body) => {
        if (body === "old") await new Promise<void>((resolve) => (finish = resolve));
        done.push(body);
      },
    );
    const old = put(url, plain(1, "r"), "old");
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect((await put(url, plain(2, "r"), "new")).status).toBe(200);
    finish();
    await old;
    expect(done).toEqual(["new", "old"]);
  });

  test("a handler that fails gives its turn back", async () => {
    const fence = httpGuard({ guard: memoryGuard(), resource: "r" });
    const failing = fence.guarded(async () => {
      throw new Error("on purpose");
    });
    const url = await listen(
      createServer((req, res) => {
        if (req.headers["x-fail"] === undefined) void fence.guarded(() => res.end("ok"))(req, res);
        else failing(req, res).catch(() => res.writeHead(500).end());
      }),
    );
    const headers = { "x-fail": "1", "Fencing-Token": plain(1, "r") };
    expect((await fetch(url, { headers })).status).toBe(500);
    expect((await put(url, plain(2, "r"))).status).toBe(200);
  });

  test("S2: a client that goes away does not let the next holder in beside its handler", async () => {
    const story: string[] = [];
    let finish = (): void => undefined;
    const url = await node({ guard: memoryGuard(), resource: "r" }, async (body) => {
      story.push(`begin ${body}`);
      if (body === "old") await new Promise<void>((resolve) => (finish = resolve));
      story.push(`end ${body}`);
    });
    const gone = new AbortController();
    const { signal } = gone;
    const headers = { "Fencing-Token": plain(1, "r") };
    const old = fetch(url, { method: "PUT", body: "old", headers, signal }).catch(() => "gone");
    await waitFor(() => story.length === 1);
    gone.abort();
    expect(await old).toBe("gone");
    const newer = put(url, plain(2, "r"), "new");
    await waitFor(async () => (await put(url, plain(1, "r"), "late")).status === 409);
    expect(story).not.toContain("begin new");
    finish();
    expect((await newer).status).toBe(200);
    expect(story.slice(-3)).toEqual(["end old", "begin new", "end new"]);
  });

  test("the resource may depend on the request; a name that cannot be had is the request's fault", async () => {
    const guard = memoryGuard();
    const resourceOf = (req: IncomingMessage): string =>
      decodeURIComponent((req.url ?? "").slice(1));
    const url = await node({ guard, resourceOf }, () => undefined);
    expect((await put(`${url}/a`, plain(5, "a"))).status).toBe(200);
    expect((await put(`${url}/b`, plain(1, "b"))).status).toBe(200);
    expect((await put(`${url}/a`, plain(4, "a"))).status).toBe(409);
    expect((await put(`${url}/a`, plain(9, "b"))).status).toBe(403);
    for (const path of ["", "%ff", "x".repeat(600)]) {
      expect((await put(`${url}/${path}`, plain(1, "a"))).status).toBe(400);
    }
    const name = '账 "本"\\%';
    const coded = encodeURIComponent(name);
    await fencedFetch()(`${url}/${coded}`, { lease: { resource: name, token: 3n } });
    expect(guard.highest(name)).toBe(3n);
  });

  test("a guard that cannot answer is 503 without details, told to onError", async () => {
    const errors: unknown[] = [];
    const failure = new Error("password in the message");
    const guard = { raise: () => Promise.reject(failure), highest: () => undefined };
    const url = await node({ guard, resource: "r", onError: (error) => errors.push(error) }, () =>
      expect.unreachable(),
    );
    const answer = await put(url, plain(1, "r"));
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("password");
    expect(errors).toEqual([failure]);
  });

  test("two headers, and one of ten megabytes, are refused", async () => {
    const done: string[] = [];
    const url = new URL(
      await node({ guard: memoryGuard(), resource: "settlement" }, () => done.push("x")),
    );
    const send = (value: string | string[]): Promise<number | string | undefined> =>
      new Promise((resolve) => {
        const sent = request(url, { headers: { "Fencing-Token": value } }, (res) => {
          res.resume();
          resolve(res.statusCode);
        });
        sent.on("error", (error) => resolve((error as { code?: string }).code));
        sent.end();
      });
    expect(await send([plain(1), plain(2)])).toBe(400);
    expect([431, "ECONNRESET", "EPIPE"]).toContain(await send(plain("1".repeat(10_000_000))));
    expect(done).toEqual([]);
  });

  test("tokenOf() answers for the request that was admitted", async () => {
    const fence = httpGuard({ guard: memoryGuard(), resource: "r" });
    let seen: unknown;
    const handler = fence.guarded((req: IncomingMessage, res: ServerResponse) => {
      seen = fence.tokenOf(req)?.token;
      res.end();
    });
    await put(await listen(createServer(handler)), plain(3, "r"));
    expect(seen).toBe(3n);
    expect(fence.tokenOf({})).toBeUndefined();
  });

  test("options that cannot work are refused", () => {
    const guard = memoryGuard();
    for (const options of [
      {},
      { guard },
      { guard, resource: "" },
      { guard: {}, resource: "r" },
      { guard, resource: "r", resourceOf: () => "r" },
      { guard, resource: "r", signedBy: {} },
    ]) {
      expect(() => httpGuard(options as HttpGuardOptions)).toThrow(
        expect.objectContaining({ code: "INVALID_ARGUMENT" }),
      );
    }
  });
});

describe("signed tokens over HTTP", () => {
  test("only signed ones are believed: a forged maximum poisons nothing", async () => {
    const [pair, other] = [generateKeyPairSync("ed25519"), generateKeyPairSync("ed25519")];
    const trusted = verifier({ keys: { k1: pair.publicKey } });
    const guard = memoryGuard();
    const url = await node({ guard, resource: "settlement", signedBy: trusted }, () => undefined);
    const sign = (keys: typeof pair, token: bigint, resource = "settlement"): string => {
      const text = signer({ keyId: "k1", privateKey: keys.privateKey });
      return `signed="${text.sign({ resource, token }, { expiresInMs: 60_000 })}"`;
    };
    expect((await put(url, sign(pair, 5n))).status).toBe(200);
    const max = 2n ** 127n - 1n;
    for (const header of [plain(max), sign(other, max), 'signed="tenure1.k1.e30.abc"']) {
      const answer = await put(url, header);
      expect(answer.status).toBe(401);
      expect(answer.headers.get("www-authenticate")).toBe("Fencing-Token");
    }
    expect((await put(url, sign(pair, max, "other"))).status).toBe(403);
    expect((await put(url, sign(pair, 4n))).status).toBe(409);
    expect((await put(url, sign(pair, 6n))).status).toBe(200);
    trusted.revoke("k1");
    expect((await put(url, sign(pair, 7n))).status).toBe(401);
    expect(guard.highest("settlement")).toBe(6n);
  });
});

describe("fencedFetch", () => {
  test("S6: takes the lease of lease.run(), asks it right before sending, and needs one outside", async () => {
    const done: string[] = [];
    const guard = memoryGuard();
    const url = await node({ guard, resource: "settlement" }, (body) => done.push(body));
    const write = fencedFetch();
    await using tenure = await connect("memory:");
    const lease = await tenure.acquire("settlement");
    const init = { method: "PUT", body: "in time" };
    await lease.run(async () => expect((await write(url, init)).status).toBe(200));
    expect(guard.highest("settlement")).toBe(lease.token);
    await expect(write(url, init)).rejects.toThrow("inside lease.run()");
    await expect(write(url, { ...init, lease: undefined })).rejects.toThrow("undefined");
    await lease.release();
    await expect(write(url, { ...init, lease })).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(done).toEqual(["in time"]);
  });

  test("a stale token is a StaleTokenError, another 409 an answer", async () => {
    const guard = memoryGuard();
    guard.raise({ resource: "settlement", token: 9n });
    const url = await node({ guard, resource: "settlement" }, () => undefined);
    const lease = { resource: "settlement", token: 8n };
    await expect(fencedFetch()(url, { lease })).rejects.toMatchObject({
      code: "STALE_TOKEN",
      offered: 8n,
      highest: 9n,
    });
    const own = await listen(createServer((_req, res) => res.writeHead(409).end("own")));
    expect(await (await fencedFetch()(own, { lease })).text()).toBe("own");
    const header = { headers: { "fencing-token": "x" }, lease };
    await expect(fencedFetch()(own, header)).rejects.toThrow("already");
    expect(() => fencedFetch("x" as never)).toThrow("function");
  });

  test("signs where the service asks for it", async () => {
    const pair = generateKeyPairSync("ed25519");
    const signedBy = verifier({ keys: { k: pair.publicKey } });
    const guard = memoryGuard();
    const url = await node({ guard, resource: "settlement", signedBy }, () => undefined);
    const own = signer({ keyId: "k", privateKey: pair.privateKey });
    const write = fencedFetch(fetch, {
      sign: (source) => own.sign(source, { expiresInMs: 5_000 }),
    });
    await write(url, { lease: { resource: "settlement", token: 3n } });
    expect(guard.highest("settlement")).toBe(3n);
  });
});
