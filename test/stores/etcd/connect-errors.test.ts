// Goal: connecting to a cluster that cannot be used fails in time, with a message that names the
// cause and the setting to change. Method: real servers that are set up wrongly; only the version
// of a server that is too old is mocked.
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { Http2Transport } from "../../../src/clients/etcd/http2-transport.ts";
import { status } from "../../../src/clients/etcd/rpc.ts";
import { isTenureError, type TenureError } from "../../../src/core/errors.ts";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { type EtcdOptions, type EtcdTransport, etcdStore } from "../../../src/stores/etcd/index.ts";
import { until } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { at, holdAndQueue, opened } from "../../support/stores/etcd-holders.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

/** Long enough for the real reason to arrive on a busy machine. */
const CONNECT_MS = 4_000;

/** The error of opening the store, which must come within the limit. */
async function refusal(options: EtcdOptions): Promise<TenureError> {
  const stopwatch = startStopwatch();
  const error: unknown = await etcdStore({ connectMs: CONNECT_MS, ...options })(systemParts()).then(
    async (store) => store.close(),
    (reason: unknown) => reason,
  );
  expect(stopwatch.elapsedMs()).toBeLessThan(CONNECT_MS + 1_500);
  if (!isTenureError(error)) throw new Error(`expected a TenureError, got ${String(error)}`);
  return error;
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

describe("a cluster with users", () => {
  // Tokens expire quickly, so that a long-lived store has to log in again.
  const locked = useServer(startEtcd, {
    rootPassword: "secret",
    fastElections: true,
    args: ["--auth-token-ttl", "1"],
  });

  beforeAll(async () => {
    const { call } = locked();
    // As in docs/stores/etcd.md: one role, for the keys of the prefix.
    await call("/v3/auth/role/add", { name: "tenure" });
    await call("/v3/auth/role/grant", {
      name: "tenure",
      perm: { permType: "READWRITE", key: base64("tenure/"), range_end: base64("tenure0") },
    });
    for (const [name, role] of [
      ["lean", "tenure"],
      ["poor", undefined],
    ] as const) {
      await call("/v3/auth/user/add", { name, password: `p@${name}` });
      if (role !== undefined) await call("/v3/auth/user/grant", { user: name, role });
    }
  });

  test("a wrong and a missing password are named as the cause, and the message does not contain the password", async () => {
    const url = `etcd://${at(locked())}`;
    const wrong = await refusal({ url, username: "root", password: "guess" });
    expect(wrong.code).toBe("STORE_UNUSABLE");
    expect(wrong.message).toMatch(/refuses this user or password.*in the URL/);
    expect(wrong.message).not.toContain("guess");
    const none = await refusal({ url });
    expect(none.message).toMatch(/requires a user and a password.*etcd:\/\/user:password@host/);
    const store = await etcdStore({ url, username: "root", password: "secret" })(systemParts());
    await store.close();
  });

  test("the error for a user without permission refers to the documentation", async () => {
    const error = await refusal({
      url: `etcd://${at(locked())}`,
      username: "poor",
      password: "p@poor",
    });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/does not allow.*docs\/stores\/etcd\.md/);
    const elsewhere = await refusal({
      url: `etcd://${at(locked())}`,
      username: "lean",
      password: "p@lean",
      prefix: "other",
    });
    expect(elsewhere.message).toMatch(/does not allow.*this prefix/);
  });

  test("the role in the documentation is sufficient, even if the login expires in between", async () => {
    const login = { username: "lean", password: "p@lean" };
    const store = await opened({ url: `etcd://${at(locked())}`, ...login });
    const { handoff, release } = await holdAndQueue(store);
    // More than twice the lifetime of a login.
    await sleep(2_500);
    const renewal = await store.renew({
      sessionId: "two",
      withdrawn: [],
      acknowledged: [],
      limitMs: 5_000,
    });
    expect(renewal.kind).toBe("renewed");
    await release();
    await handoff;
    await store.list({ prefix: "", limit: 1, limitMs: 5_000 });
    await store.endSession({ sessionId: "one", limitMs: 5_000 });
    await store.endSession({ sessionId: "two", limitMs: 5_000 });
  });

  test("a second wait and a watch on a stream with an expired login miss nothing and do not retry in a loop", async () => {
    const { host, port } = locked();
    const target = { host, port, tls: undefined, connectMs: CONNECT_MS };
    const inner = new Http2Transport(target, systemParts().clock);
    let calls = 0;
    const transport: EtcdTransport = {
      place: inner.place,
      call: (...args) => {
        calls += 1;
        return inner.call(...args);
      },
      stream: (...args) => inner.stream(...args),
      reset: () => inner.reset(),
      close: () => inner.close(),
    };
    const login = { username: "lean", password: "p@lean" };
    const store = await opened({ client: transport, ...login, prefix: "tenure/second" });
    const first = await holdAndQueue(store);
    await sleep(2_500);
    const limitMs = 5_000;
    const ask = { sessionId: "one", holderId: "one", resource: "s", queue: true, limitMs };
    const held = await store.grant({ ...ask, attempt: "one.2" });
    const queued = { ...ask, attempt: "one.3" };
    await store.grant(queued);
    const stop = new AbortController();
    const seen: string[] = [];
    const watching = (async () => {
      for await (const view of store.watch({ prefix: "", signal: stop.signal }))
        seen.push(view.resource);
    })();
    const before = calls;
    await sleep(2_000);
    expect(calls - before).toBeLessThan(20);
    const token = held.kind === "granted" ? held.token : 0n;
    await store.release({ ...ask, token });
    const isHeld = async (): Promise<boolean> => (await store.grant(queued)).kind === "granted";
    await until("the second waiter holds", isHeld, limitMs);
    await first.release();
    await first.handoff;
    await until("the watch reported both handoffs", async () => seen.join() === "r,s,s,r", 10_000);
    stop.abort();
    await watching;
  });

  test("the URL carries user and password, whatever characters they contain", async () => {
    const { host, port } = locked();
    const tenure = await connect(`etcd://lean:p%40lean@${host}:${port}/tenure/billing`);
    const lease = await tenure.acquire("r");
    await lease.release();
    await tenure.close();
  });
});

describe("a cluster without users", () => {
  const plain = useServer(startEtcd, { fastElections: true });
  const secure = useServer(startEtcd, { fastElections: true, tls: true });

  test("an unnecessary password is accepted", async () => {
    const login = { username: "root", password: "secret" };
    const store = await opened({ url: `etcd://${at(plain())}`, ...login, prefix: "open/" });
    await holdAndQueue(store);
  });

  test("a port where no server listens is named in the error", async () => {
    const free = createServer().listen(0, "127.0.0.1");
    await new Promise((resolve) => free.once("listening", resolve));
    const { port } = free.address() as { port: number };
    await new Promise((resolve) => free.close(resolve));
    const error = await refusal({ url: `etcd://127.0.0.1:${port}` });
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no", retryable: true });
    expect(error.message).toMatch(new RegExp(`127.0.0.1:${port}.*check host and port`));
    const both = await opened({ url: `etcd://127.0.0.1:${port},${at(plain())}`, prefix: "two/" });
    await holdAndQueue(both);
  });

  test("the error names the URL scheme for TLS to a plain port, plain text to a TLS port and an unknown certificate", async () => {
    const toPlain = await refusal({ url: `etcds://${at(plain())}`, tls: {} });
    expect(toPlain.message).toMatch(/etcds:\/\/.*etcd:\/\//s);
    const toTls = await refusal({ url: `etcd://${at(secure())}` });
    expect(toTls.message).toMatch(/etcds:\/\//);
    const unknown = await refusal({ url: `etcds://${at(secure())}` });
    expect(unknown.code).toBe("STORE_UNUSABLE");
    expect(unknown.message).toMatch(/certificate.*tls: \{ ca, cert, key \}/s);
    const store = await opened({ url: `etcds://${at(secure())}`, tls: { ca: secure().ca } });
    await holdAndQueue(store);
    const { folder, host, port } = secure();
    const tenure = await connect(`etcds://${host}:${port}/url?ca=${folder}/cert.pem`);
    await tenure.acquire("r");
    await tenure.close();
  });

  test("connecting over a silent link or to a frozen server fails at the limit", async () => {
    await using proxy = await startProxy(plain());
    proxy.cut();
    const silent = await refusal({ url: `etcd://${at(proxy)}` });
    expect(silent.message).toMatch(/within 4000 ms \(connectMs\)/);
    expect(silent).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
    await plain().pause();
    onTestFinished(() => plain().resume());
    const frozen = await refusal({ url: `etcd://${at(plain())}` });
    expect(frozen.message).toMatch(/connectMs/);
    await plain().resume();
  });

  test("a server that is not etcd is rejected", async () => {
    const web = createServer((socket) => socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    web.listen(0, "127.0.0.1");
    await new Promise((resolve) => web.once("listening", resolve));
    onTestFinished(() => void web.close());
    const { port } = web.address() as { port: number };
    expect((await refusal({ url: `etcd://127.0.0.1:${port}` })).message).toMatch(/127\.0\.0\.1/);
  });

  /** A mock: the real server, except for the version that it reports. */
  function claiming(version: string): EtcdTransport {
    const { host, port } = plain();
    const target = { host, port, tls: undefined, connectMs: CONNECT_MS };
    const inner = new Http2Transport(target, systemParts().clock);
    const answer = Buffer.from([0x12, version.length, ...Buffer.from(version)]);
    return {
      place: inner.place,
      call: (path, message, metadata) =>
        path === status.path
          ? { answer: Promise.resolve(answer), cancel: () => undefined }
          : inner.call(path, message, metadata),
      stream: (...args) => inner.stream(...args),
      reset: () => inner.reset(),
      close: () => inner.close(),
    };
  }

  test.each(["2.3.8", "3.3.27"])("a server of version %s (mocked) is too old", async (version) => {
    const error = await refusal({ client: claiming(version) });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/version .*; Tenure needs 3.4/);
  });

  test.each([
    ["3.4.30", 1],
    ["3.4.31", 0],
    ["3.5.12", 1],
    ["3.5.13", 0],
    ["3.6.0", 0],
    ["4.0.0", 0],
  ])("a server of version %s (mocked) is accepted, with %i warnings", async (version, count) => {
    const warnings: string[] = [];
    const onWarning = (text: string): void => void warnings.push(text);
    const store = await etcdStore({ client: claiming(version), onWarning })(systemParts());
    await store.close();
    expect(warnings).toHaveLength(count);
    for (const warning of warnings) expect(warning).toMatch(/Upgrade to 3\.4\.31/);
  });

  test("a warning about the version (a mock) is a process warning without onWarning", async () => {
    const warnings: string[] = [];
    const parts = { ...systemParts(), warn: (text: string): void => void warnings.push(text) };
    const store = await etcdStore({ client: claiming("3.4.30") })(parts);
    await store.close();
    expect(warnings).toEqual([expect.stringMatching(/etcd 3\.4\.30 may end live leases/)]);
  });
});

describe("settings", () => {
  test("invalid options are rejected before anything is connected", () => {
    const client = { call: () => undefined } as unknown as EtcdTransport;
    const bad: [EtcdOptions, RegExp][] = [
      [{}, /either .*url.* or .*client/],
      [{ url: "etcd://" }, /host 1 is not a host name/],
      [{ url: "http://a:1/path" }, /begins with etcd:/],
      [{ url: "etcd://b,a:99999" }, /host 2 is not a host name/],
      [{ url: "etcd://a", tls: {} }, /begins with etcds/],
      [{ url: "etcd://a", prefix: "a b" }, /prefix/],
      [{ url: "etcd://a", connectMs: 0 }, /connectMs/],
      [{ url: "etcd://a", username: "root" }, /together/],
      [{ client }, /stream is missing/],
      [{ url: "etcd://a", client }, /either .*url.* or .*client/],
      [{ url: "etcd://a/p", prefix: "q" }, /`prefix` in its options and in the URL/],
    ];
    for (const [options, message] of bad) expect(() => etcdStore(options)).toThrow(message);
    expect(() => etcdStore({ url: "http://root:secret@a:1" })).not.toThrow(/secret/);
  });
});
