// What the guards of Redis, HTTP and files cost against the same write without them, and what a signed token costs.

import { generateKeyPairSync, verify } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { connect, type Lease } from "tenure";
import { fileGuard } from "tenure/guards/file";
import { fencedFetch, httpGuard } from "tenure/guards/http";
import { memoryGuard } from "tenure/guards/memory";
import { type RedisGuardClient, redisGuard } from "tenure/guards/redis";
import { signer, verifier } from "tenure/proof";
import { type RedisOptions, startRedis } from "../test/servers/redis.ts";
import { compare, METHOD, ratios } from "./guards.ts";
import { atMost, inTempFolder, median, type Row, type Section } from "./support.ts";

const VALUE = "an entry of the ledger";
const LEAST_SCRIPT = "redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[2], ARGV[1])";

export async function remoteGuards(): Promise<Section> {
  const tenure = await connect("memory:");
  const lease = await tenure.acquire("ledger", { ttlMs: 600_000 });
  const rows = [
    ...(await ofRedis(lease)),
    ...(await ofHttp(lease)),
    ...(await ofFile(lease)),
    ...(await ofSignature(lease)),
  ];
  await tenure.close();
  const title = "Guarded writes over Redis, HTTP and files, and signed tokens";
  const method = `${METHOD} Redis and HTTP on loopback, the service in this process; file: write, fsync, rename, fsync of the folder for both.`;
  return { title, method, rows };
}

async function ofRedis(lease: Lease): Promise<Row[]> {
  // With a disk, as a guard that has to remember wants it; and without, where only the scripts' own time is left.
  return [
    ...(await redisRows(
      lease,
      "Redis SET, fsync always",
      { appendonly: true, appendfsync: "always" },
      0.9,
    )),
    ...(await redisRows(lease, "Redis SET, in memory only", { own: true }, 0.9)),
  ];
}

async function redisRows(
  lease: Lease,
  what: string,
  options: RedisOptions,
  target: number,
): Promise<Row[]> {
  await using server = await startRedis(options);
  const ioredis = new Redis(server.url);
  const nodeRedis = createClient({ url: server.url });
  await nodeRedis.connect();
  const rows: Row[] = [];
  // What the server and the client take for a script by itself: no guard can be faster.
  const sha = String(await ioredis.script("LOAD", LEAST_SCRIPT));
  const keys = ["{ledger}:read", "{ledger}:script"];
  const scripts: Readonly<Record<string, () => Promise<unknown>>> = {
    ioredis: () => ioredis.evalsha(sha, 2, ...keys, VALUE),
    "node-redis": () => nodeRedis.evalSha(sha, { keys, arguments: [VALUE] }),
  };
  const clients: [string, RedisGuardClient, () => Promise<unknown>][] = [
    ["ioredis", ioredis, () => ioredis.set("{ledger}:bare", VALUE)],
    ["node-redis", nodeRedis, () => nodeRedis.set("{ledger}:bare", VALUE)],
  ];
  for (const [name, client, bare] of clients) {
    const guard = redisGuard(client);
    const guarded = (): Promise<unknown> => guard.set(lease, "{ledger}:guarded", VALUE);
    const rates = await compare({ bare, guarded, script: scripts[name] ?? bare });
    rows.push(...ratios(`${what} (${name})`, rates, target));
    const share = median(rates.script.map((rate, round) => rate / (rates.bare[round] ?? 1)));
    rows.push({
      what: `${what} (${name}): any script that reads a key and sets another, to a bare SET`,
      measured: `${share.toFixed(2)}x`,
    });
  }
  ioredis.disconnect();
  nodeRedis.destroy();
  return rows;
}

async function ofHttp(lease: Lease): Promise<Row[]> {
  const fence = httpGuard({ guard: memoryGuard(), resource: "ledger" });
  const handler: RequestListener = async (request, response) => {
    for await (const chunk of request) void chunk;
    response.end("done");
  };
  const [plain, closed] = [createServer(handler), createServer(fence.guarded(handler))];
  for (const server of [plain, closed]) {
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  }
  const urlOf = (server: typeof plain): string =>
    `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const [bareUrl, guardedUrl] = [urlOf(plain), urlOf(closed)];
  const send = fencedFetch();
  const init = { method: "PUT", body: VALUE };
  // The same request to both, as a client in another language would make it: only the service's side differs.
  const headers = { "Fencing-Token": `resource="ledger", token=${lease.token}` };
  const alone = await compare({
    bare: async () => (await fetch(bareUrl, { ...init, headers })).text(),
    guarded: async () => (await fetch(guardedUrl, { ...init, headers })).text(),
  });
  const both = await compare({
    bare: async () => (await fetch(bareUrl, init)).text(),
    guarded: async () => (await send(guardedUrl, { ...init, lease })).text(),
  });
  for (const server of [plain, closed]) {
    server.closeAllConnections();
    server.close();
  }
  return [
    ...ratios("HTTP PUT (node:http), the middleware", alone, 0.95),
    ...ratios("HTTP PUT (node:http, fetch), fencedFetch() and the middleware", both),
  ];
}

async function ofFile(lease: Lease): Promise<Row[]> {
  return inTempFolder(async (folder) => {
    const [plain, closed] = [join(folder, "plain"), join(folder, "guarded")];
    const guard = fileGuard(closed);
    const sync = (path: string, flags: string, text?: string): void => {
      const descriptor = openSync(path, flags);
      if (text !== undefined) writeSync(descriptor, text);
      fsyncSync(descriptor);
      closeSync(descriptor);
    };
    const replace = await compare({
      bare: () => {
        sync(`${plain}.new`, "w", VALUE);
        renameSync(`${plain}.new`, plain);
        sync(folder, "r");
      },
      guarded: () => guard.replace(lease, VALUE),
    });
    const append = await compare({
      bare: () => sync(plain, "a", VALUE),
      guarded: () => guard.append(lease, VALUE),
    });
    await guard.close();
    return [...ratios("file replaced", replace), ...ratios("file appended to", append)];
  });
}

async function ofSignature(lease: Lease): Promise<Row[]> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const own = signer({ keyId: "k1", privateKey });
  const trusted = verifier({ keys: { k1: publicKey } });
  const texts = Array.from({ length: 2_000 }, (_, index) =>
    own.sign({ resource: "ledger", token: BigInt(index + 1) }, { expiresInMs: 3_600_000 }),
  );
  let next = 0;
  const cut = (texts[0] ?? "").lastIndexOf(".");
  const signed = Buffer.from((texts[0] ?? "").slice(0, cut));
  const signature = Buffer.from((texts[0] ?? "").slice(cut + 1), "base64url");
  const rates = await compare(
    {
      sign: () => own.sign(lease, { expiresInMs: 60_000 }),
      // The arithmetic of one signature, by itself.
      bare: () => verify(null, signed, publicKey, signature),
      // More texts in turn than are remembered.
      first: () => trusted.verify(texts[next++ % texts.length] ?? ""),
      again: () => trusted.verify(texts[0] ?? ""),
    },
    10,
  );
  const shown = (value: number): string => `${value.toFixed(0)} us`;
  const took = (values: readonly number[]): number => 1e6 / median(values);
  return [
    { what: "signed token: signing", measured: shown(took(rates.sign)) },
    { what: "signed token: bare crypto.verify() of Ed25519", measured: shown(took(rates.bare)) },
    atMost("signed token: verification of a new text", took(rates.first), 100, shown),
    // A holder shows the same text for its whole term.
    atMost("signed token: verification of a text seen before", took(rates.again), 100, shown),
  ];
}
