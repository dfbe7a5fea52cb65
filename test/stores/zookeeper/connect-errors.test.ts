// Goal: connecting to a server that cannot be used fails in time, with a message that names the
// cause and the setting to change; and a store keeps no process alive. Method: real servers and
// ports that are set up wrongly.
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer as createHttp } from "node:http";
import { createServer, connect as dial, type Server } from "node:net";
import { createServer as createTls } from "node:tls";
import { promisify } from "node:util";
import { describe, expect, onTestFinished, test } from "vitest";
import { refusalOf } from "../../../src/clients/zookeeper/failures.ts";
import { ERROR } from "../../../src/clients/zookeeper/messages.ts";
import { isTenureError, type TenureError } from "../../../src/core/errors.ts";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { type ZooKeeperOptions, zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { makeCertificate } from "../../servers/certificate.ts";
import { makeFolder, removeFolder } from "../../servers/launch.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";
import { Console } from "../../support/stores/zookeeper-nodes.ts";

const zookeeper = useServer(startZooKeeper);
const CONNECT_MS = 2_000;
let roots = 0;

function newRoot(): string {
  roots += 1;
  return `/refusals${roots}`;
}

const here = (): string => `127.0.0.1:${zookeeper().port}`;

async function refusal(options: ZooKeeperOptions): Promise<TenureError> {
  const stopwatch = startStopwatch();
  const error: unknown = await zookeeperStore({ connectMs: CONNECT_MS, ...options })(
    systemParts(),
  ).then(
    async (store) => store.close(),
    (reason: unknown) => reason,
  );
  expect(stopwatch.elapsedMs()).toBeLessThan(CONNECT_MS + 1_000);
  if (!isTenureError(error)) throw new Error(`expected a TenureError, got ${String(error)}`);
  return error;
}

/** Starts listening on a free port until the test ends. */
async function listening(server: Server): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.close();
  });
  return `127.0.0.1:${(server.address() as { port: number }).port}`;
}

describe("connecting", () => {
  test("an address where no server listens is named in the error", async () => {
    const server = createServer();
    const hosts = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    const error = await refusal({ url: `zookeeper://${hosts}` });
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no", retryable: true });
    expect(error.message).toMatch(new RegExp(`${hosts}.*check host and port`));
  });

  test("an unknown host is named in the error", async () => {
    const error = await refusal({ url: "zookeeper://no-such-host.invalid" });
    // Some name servers take their time.
    expect(error.message).toMatch(/no-such-host\.invalid:2181.*(host name|within)/);
  });

  test("a server that is not ZooKeeper is recognized", async () => {
    const web = createHttp((_, response) => response.end("hello"));
    const error = await refusal({ url: `zookeeper://${await listening(web)}` });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(/is not ZooKeeper.*Check the port/);
  });

  test("the error lists the possible causes if the server closes the connection", async () => {
    const rude = createServer((socket) => socket.once("data", () => socket.end()));
    const error = await refusal({ url: `zookeeper://${await listening(rude)}` });
    expect(error.message).toMatch(/closed the connection.*quorum.*read-only.*TLS/);
  });

  test("connecting over a silent link fails at the limit", async () => {
    await using proxy = await startProxy(zookeeper());
    proxy.cut();
    const error = await refusal({ url: `zookeeper://127.0.0.1:${proxy.port}`, connectMs: 700 });
    expect(error).toMatchObject({ code: "STORE_UNAVAILABLE", applied: "no" });
    expect(error.message).toMatch(/within 700 ms/);
  });

  test("a server that is down is skipped in favor of the next one in the list", async () => {
    const server = createServer();
    const down = await listening(server);
    await new Promise((resolve) => server.close(resolve));
    const hosts = [down, here()];
    const store = await zookeeperStore({ url: `zookeeper://${hosts}`, prefix: newRoot() })(
      systemParts(),
    );
    onTestFinished(() => store.close());
    const session = { sessionId: "one", holderId: "one", limitMs: 5_000 };
    await store.openSession({ ...session, ttlMs: 10_000 });
    const asked = { ...session, resource: "r", attempt: "one.1", queue: false };
    expect((await store.grant(asked)).kind).toBe("granted");
  });
});

describe("permissions", () => {
  const login = { username: "billing", password: "s:ecret" };

  test("nodes of one user are closed to others, and the error says what to change", async () => {
    const root = newRoot();
    const own = await zookeeperStore({ url: `zookeeper://${here()}`, prefix: root, ...login })(
      systemParts(),
    );
    onTestFinished(() => own.close());
    const session = { sessionId: "one", holderId: "one", limitMs: 5_000 };
    await own.openSession({ ...session, ttlMs: 10_000 });
    const asked = { ...session, resource: "r", attempt: "one.1", queue: false };
    expect((await own.grant(asked)).kind).toBe("granted");
    const wrong = await refusal({
      url: `zookeeper://${here()}`,
      prefix: root,
      ...login,
      password: "hunter2",
    });
    expect(wrong.code).toBe("STORE_UNUSABLE");
    expect(wrong.message).toMatch(/does not allow.*user and password.*docs\/stores\/zookeeper\.md/);
    expect(wrong.message).not.toContain("hunter2");
    expect((await refusal({ url: `zookeeper://${here()}`, prefix: root })).message).toMatch(
      /does not allow/,
    );
    await using console = await Console.open(zookeeper());
    await expect(console.children(`${root}/leases/r`)).rejects.toThrow(`${ERROR.noAuth}`);
  });

  test("a root that may not be created is named in the error", async () => {
    await using console = await Console.open(zookeeper(), "admin:admin");
    const above = newRoot();
    await console.create(above, "auth", "");
    const error = await refusal({ url: `zookeeper://${here()}`, prefix: `${above}/tenure` });
    expect(error.code).toBe("STORE_UNUSABLE");
    expect(error.message).toMatch(new RegExp(`"${above}/tenure.*choose another prefix|may not be`));
  });

  test("the URL's user, root and settings reach the store", async () => {
    const root = newRoot();
    const url = `zookeeper://billing:s%3Aecret@${here()}${root}/deep?tick-ms=500`;
    const tenure = await connect(url);
    expect(tenure.guarantees.expiryLagMs).toBe(1_000);
    await tenure.acquire("a/b");
    await using console = await Console.open(zookeeper(), "billing:s:ecret");
    expect(await console.children(`${root}/deep/leases`)).toEqual(["a%2Fb"]);
    await tenure.close();
  });
});

describe("TLS", () => {
  /** Stands in for the server's secureClientPort. */
  async function tunnel(): Promise<{ url: string; ca: string }> {
    const folder = await makeFolder("zookeeper-tls");
    onTestFinished(() => removeFolder(folder));
    const { ca, certFile, keyFile } = await makeCertificate(folder);
    const files = { cert: readFileSync(certFile), key: readFileSync(keyFile) };
    const server = createTls(files, (secure) => {
      const plain = dial({ host: "127.0.0.1", port: zookeeper().port });
      secure.pipe(plain).pipe(secure);
      for (const end of [secure, plain]) end.on("error", () => undefined);
    });
    server.on("tlsClientError", () => undefined);
    return { url: `zookeeper://${await listening(server)}`, ca };
  }

  test("TLS works with the certificate; the error names TLS if the certificate is unknown or only one side uses TLS", async () => {
    const { url, ca } = await tunnel();
    const root = newRoot();
    const store = await zookeeperStore({ url, prefix: root, tls: { ca } })(systemParts());
    await store.close();
    const strange = await refusal({ url, prefix: root, tls: {} });
    expect(strange.code).toBe("STORE_UNUSABLE");
    expect(strange.message).toMatch(/No TLS connection.*self-signed.*tls: \{ ca \}/);
    expect((await refusal({ url, prefix: root })).message).toMatch(/TLS/);
    const toPlain = await refusal({ url: `zookeeper://${here()}`, prefix: root, tls: { ca } });
    expect(toPlain.message).toMatch(/TLS|did not answer within/);
  });
});

describe("error codes of the server", () => {
  test("the error says what to change if the server is too old, requires SASL or rejects the user", () => {
    const said = (error: number): string => refusalOf(error, "h1:2181").message;
    expect(said(ERROR.unimplemented)).toMatch(/too old.*3\.6/);
    expect(said(ERROR.saslRequired)).toMatch(/SASL/);
    expect(said(ERROR.authFailed)).toMatch(/user and password/);
    expect(refusalOf(-1, "h1:2181")).toMatchObject({
      code: "STORE_UNAVAILABLE",
      applied: "unknown",
    });
  });
});

describe("a process", () => {
  const index = new URL("../../../src/index.ts", import.meta.url).href;
  const run = async (body: string): Promise<{ stdout: string; tookMs: number }> => {
    const url = `zookeeper://${here()}${newRoot()}`;
    const script = `import { connect } from ${JSON.stringify(index)};
      const tenure = await connect(${JSON.stringify(url)}, { defaults: { ttlMs: 20_000 } });
      const lease = await tenure.acquire("r"); ${body}`;
    const args = ["--import", "tsx", "--input-type=module", "-e", script];
    const begunAt = performance.now();
    const { stdout, stderr } = await promisify(execFile)(process.execPath, args, {
      timeout: 25_000,
    });
    expect(stderr).toBe("");
    return { stdout, tookMs: performance.now() - begunAt };
  };

  test.each([
    ["holds a lease and has nothing else to do", 'console.log("held");'],
    ["has closed everything", 'await tenure.close(); console.log("held");'],
  ])("a process that %s ends by itself", async (_, body) => {
    const { stdout, tookMs } = await run(body);
    expect(stdout).toBe("held\n");
    // Far below the session's 20 s, and below its first renewal at 6.7 s on any machine that starts
    // Node in 4 s.
    expect(tookMs).toBeLessThan(15_000);
  });
});
