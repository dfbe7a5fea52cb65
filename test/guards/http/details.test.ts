// Goal: behaviour of the HTTP guard that is the same on every framework: slow guards, clients that
// disconnect, resources from paths, signed tokens, and fencedFetch(). Method: real servers of
// node:http on loopback.

import { generateKeyPairSync } from "node:crypto";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import { describe, expect, test } from "vitest";
import { fencedFetch, type HttpGuardOptions, httpGuard } from "../../../src/guards/http/index.ts";
import { type MemoryGuard, memoryGuard } from "../../../src/guards/memory/index.ts";
import { signer, verifier } from "../../../src/guards/proof/signed.ts";
import { connect } from "../../../src/index.ts";
import { listen, plain, put, services, waitFor } from "../../support/guards/http-services.ts";

const node = services["node:http"] as (typeof services)[string];

describe("the HTTP guard", () => {
  test("S2: with a slow guard, no handler starts after one with a newer token", async () => {
    // Every advance takes a different time, so that the comparisons overlap.
    const inner = memoryGuard();
    let turn = 0;
    const slow = {
      highest: inner.highest,
      advance: async (source: Parameters<MemoryGuard["advance"]>[0]) => {
        turn += 1;
        const delay = (turn * 7) % 5;
        await new Promise((resolve) => setTimeout(resolve, delay));
        inner.advance(source);
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

  test("a handler that fails ends its turn", async () => {
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

  test("S2: after its client has disconnected, a running handler still blocks the next holder", async () => {
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

  test("the resource may depend on the request, and an invalid name is answered with 400", async () => {
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

  test("an unavailable guard is answered with 503 without details, and onError gets the error", async () => {
    const errors: unknown[] = [];
    const failure = new Error("password in the message");
    const guard = { advance: () => Promise.reject(failure), highest: () => undefined };
    const url = await node({ guard, resource: "r", onError: (error) => errors.push(error) }, () =>
      expect.unreachable(),
    );
    const answer = await put(url, plain(1, "r"));
    expect(answer.status).toBe(503);
    expect(await answer.text()).not.toContain("password");
    expect(errors).toEqual([failure]);
  });

  test("two headers, and one of ten megabytes, are rejected", async () => {
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

  test("tokenOf() returns the token of an admitted request", async () => {
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

  test("invalid options are rejected", () => {
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
  test("only signed tokens are accepted, and a forged maximum has no effect", async () => {
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
  test("S6: uses the lease of lease.run(), checks it right before sending, and needs one outside", async () => {
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

  test("a stale token rejects with StaleTokenError, and any other 409 is returned", async () => {
    const guard = memoryGuard();
    guard.advance({ resource: "settlement", token: 9n });
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

  test("follows a redirect, which may send the token to another origin, only if configured", async () => {
    const received: unknown[] = [];
    const elsewhere = await listen(
      createServer((req, res) => {
        received.push(req.headers["fencing-token"]);
        res.end("elsewhere");
      }),
    );
    const url = await listen(
      createServer((_req, res) => res.writeHead(307, { Location: elsewhere }).end()),
    );
    const lease = { resource: "settlement", token: 3n };
    const init = { method: "PUT", body: "x", lease };
    await expect(fencedFetch()(url, init)).rejects.toThrow("fetch failed");
    await expect(fencedFetch()(new Request(url), { lease })).rejects.toThrow("fetch failed");
    await expect(fencedFetch()(url, { ...init, redirect: undefined })).rejects.toThrow();
    expect(received).toEqual([]);
    for (const manual of [
      await fencedFetch()(url, { ...init, redirect: "manual" }),
      await fencedFetch()(new Request(url, { redirect: "manual" }), { lease }),
    ]) {
      expect(manual.status).toBe(307);
    }
    const followed = await fencedFetch()(url, { ...init, redirect: "follow" });
    expect(await followed.text()).toBe("elsewhere");
    expect(received).toEqual([plain(3)]);
  });

  test("S8: returns a 409 that only resembles ours", async () => {
    const lease = { resource: "settlement", token: 3n };
    for (const body of [
      "null",
      "[",
      '"x"',
      '{"type":"urn:tenure:stale-token"}',
      '{"type":"urn:tenure:stale-token","highest":"x"}',
      '{"type":"urn:tenure:stale-token","highest":{"toString":1}}',
    ]) {
      const url = await listen(
        createServer((_req, res) =>
          res.writeHead(409, { "Content-Type": "application/problem+json" }).end(body),
        ),
      );
      const answer = await fencedFetch()(url, { lease });
      expect([answer.status, await answer.text()]).toEqual([409, body]);
    }
  });

  test("signs the token if `sign` is given", async () => {
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
