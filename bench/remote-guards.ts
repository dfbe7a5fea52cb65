// The writes that guards.ts measures on Redis, HTTP and files, each through a guard and without one
// ("bare"), and the verification of signed tokens. The lease must be on the resource "ledger".

import { generateKeyPairSync, verify } from "node:crypto";
import { closeSync, fsyncSync, openSync, renameSync, writeSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { Redis } from "ioredis";
import { createClient } from "redis";
import type { Lease } from "tenure";
import { fileGuard } from "tenure/guards/file";
import { fencedFetch, httpGuard } from "tenure/guards/http";
import { memoryGuard } from "tenure/guards/memory";
import { redisGuard } from "tenure/guards/redis";
import { signer, verifier } from "tenure/proof";
import { type RedisOptions, startRedis } from "../test/servers/redis.ts";
import type { Write } from "./guards.ts";

const VALUE = "an entry of the ledger";
/** Without a guard, a script that reads one key and sets another: no guard can be faster. */
const SCRIPT = "redis.call('GET', KEYS[1]) return redis.call('SET', KEYS[2], ARGV[1])";

export async function* redisWrites(
  lease: Lease,
  durability: string,
  options: RedisOptions,
): AsyncGenerator<Write> {
  await using server = await startRedis(options);
  const ioredis = new Redis(server.url);
  const nodeRedis = createClient({ url: server.url });
  await nodeRedis.connect();
  const sha = String(await ioredis.script("LOAD", SCRIPT));
  const keys = ["{ledger}:read", "{ledger}:script"];
  const [ofIoredis, ofNodeRedis] = [redisGuard(ioredis), redisGuard(nodeRedis)];
  yield {
    title: `Redis guard (ioredis), ${durability}: SET`,
    bare: () => ioredis.set("{ledger}:bare", VALUE),
    guarded: () => ofIoredis.set(lease, "{ledger}:guarded", VALUE),
    others: { "any script": () => ioredis.evalsha(sha, 2, ...keys, VALUE) },
    target: 0.9,
  };
  yield {
    title: `Redis guard (node-redis), ${durability}: SET`,
    bare: () => nodeRedis.set("{ledger}:bare", VALUE),
    guarded: () => ofNodeRedis.set(lease, "{ledger}:guarded", VALUE),
    others: { "any script": () => nodeRedis.evalSha(sha, { keys, arguments: [VALUE] }) },
    target: 0.9,
  };
  ioredis.disconnect();
  nodeRedis.destroy();
}

export async function* httpWrites(lease: Lease): AsyncGenerator<Write> {
  const fence = httpGuard({ guard: memoryGuard(), resource: lease.resource });
  const handler: RequestListener = async (request, response) => {
    for await (const chunk of request) void chunk;
    response.end("done");
  };
  const servers = [createServer(handler), createServer(fence.guarded(handler))];
  for (const server of servers)
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const [bareUrl = "", guardedUrl = ""] = servers.map(
    (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
  );
  const send = fencedFetch();
  const init = { method: "PUT", body: VALUE };
  // Both get the same request, so that only the service differs.
  const headers = { "Fencing-Token": `resource="ledger", token=${lease.token}` };
  yield {
    title: "HTTP guard: PUT, the service's side",
    bare: async () => (await fetch(bareUrl, { ...init, headers })).text(),
    guarded: async () => (await fetch(guardedUrl, { ...init, headers })).text(),
    target: 0.95,
  };
  yield {
    title: "HTTP guard: PUT with fencedFetch(), both sides",
    bare: async () => (await fetch(bareUrl, init)).text(),
    guarded: async () => (await send(guardedUrl, { ...init, lease })).text(),
  };
  for (const server of servers) {
    server.closeAllConnections();
    server.close();
  }
}

export async function* fileWrites(lease: Lease, folder: string): AsyncGenerator<Write> {
  const [plain, guarded] = [join(folder, "plain"), join(folder, "guarded")];
  const guard = fileGuard(guarded);
  const write = (path: string, flags: string, text?: string): void => {
    const descriptor = openSync(path, flags);
    if (text !== undefined) writeSync(descriptor, text);
    fsyncSync(descriptor);
    closeSync(descriptor);
  };
  yield {
    title: "File guard: replace (write, fsync, rename, fsync of the folder)",
    bare: () => {
      write(`${plain}.new`, "w", VALUE);
      renameSync(`${plain}.new`, plain);
      write(folder, "r");
    },
    guarded: () => guard.replace(lease, VALUE),
  };
  yield {
    title: "File guard: append (write, fsync)",
    bare: () => write(plain, "a", VALUE),
    guarded: () => guard.append(lease, VALUE),
  };
  await guard.close();
}

/** "Guarded" is a verification, "bare" the arithmetic of one signature alone. */
export async function* signatures(lease: Lease): AsyncGenerator<Write> {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  const own = signer({ keyId: "k1", privateKey });
  const trusted = verifier({ keys: { k1: publicKey } });
  // More texts than the verifier remembers.
  const texts = Array.from({ length: 2_000 }, (_, index) =>
    own.sign({ resource: "ledger", token: BigInt(index + 1) }, { expiresInMs: 3_600_000 }),
  );
  const [text = ""] = texts;
  const cut = text.lastIndexOf(".");
  const signed = Buffer.from(text.slice(0, cut));
  const signature = Buffer.from(text.slice(cut + 1), "base64url");
  let next = 0;
  yield {
    title: "Signed tokens: verification of a new text",
    bare: () => verify(null, signed, publicKey, signature),
    guarded: () => trusted.verify(texts[next++ % texts.length] ?? ""),
    others: { signing: () => own.sign(lease, { expiresInMs: 60_000 }) },
    target: 0.9,
    batch: 10,
  };
  // A holder sends the same text for its whole term.
  yield {
    title: "Signed tokens: verification of a text seen before",
    bare: () => verify(null, signed, publicKey, signature),
    guarded: () => trusted.verify(text),
    target: 10,
    batch: 10,
  };
}
