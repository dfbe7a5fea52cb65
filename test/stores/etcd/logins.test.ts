// Goal: a login that expires or becomes outdated costs a request one retry and never fails it.
// Method: many concurrent calls on a real etcd with authentication, over several renewals of short
// JWT logins, and on default logins while another client changes roles.
import { describe, expect, onTestFinished, test } from "vitest";
import { Http2Transport } from "../../../src/clients/etcd/http2-transport.ts";
import { authenticate } from "../../../src/clients/etcd/rpc.ts";
import { etcdGuard } from "../../../src/guards/etcd/index.ts";
import { connect, type Tenure } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { type EtcdTransport, etcdStore } from "../../../src/stores/etcd/index.ts";
import { type EtcdServer, startEtcd } from "../../servers/etcd.ts";
import { useServer } from "../../servers/use-server.ts";

/** Far above what a busy machine needs for a login and a request. */
const timing = { ttlMs: 30_000, roundTripMs: 5_000, clockErrorMs: 100, renewEveryMs: 5_000 };

const CALLERS = 20;

interface Counts {
  logins: number;
  /** Requests and streams that started while a login was in progress. */
  duringLogin: number;
}

/** A connection whose logins are counted. */
async function counted(server: EtcdServer): Promise<{ tenure: Tenure; counts: Counts }> {
  const { host, port } = server;
  const target = { host, port, tls: undefined, connectMs: 5_000 };
  const inner = new Http2Transport(target, systemParts().clock);
  const counts = { logins: 0, duringLogin: 0 };
  let underWay = 0;
  const transport: EtcdTransport = {
    place: inner.place,
    call: (path, ...rest) => {
      if (underWay > 0) counts.duringLogin += 1;
      const call = inner.call(path, ...rest);
      if (path === authenticate.path) {
        counts.logins += 1;
        underWay += 1;
        const over = (): void => {
          underWay -= 1;
        };
        call.answer.then(over, over);
      }
      return call;
    },
    stream: (...args) => {
      if (underWay > 0) counts.duringLogin += 1;
      return inner.stream(...args);
    },
    reset: () => inner.reset(),
    close: () => inner.close(),
  };
  const login = { username: "root", password: "secret" };
  const tenure = await connect(etcdStore({ client: transport, ...login }), { defaults: timing });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  return { tenure, counts };
}

/**
 * Many callers make every kind of call until `isEnough`, which gets the number of calls so far,
 * returns true. Returns the errors of all calls.
 */
async function failures(
  tenure: Tenure,
  server: EtcdServer,
  isEnough: (calls: number) => boolean,
): Promise<string[]> {
  const guard = etcdGuard(server.url);
  onTestFinished(() => guard.close());
  const failed: string[] = [];
  let calls = 0;
  const tried = async (name: string, call: () => Promise<unknown>): Promise<void> => {
    await call().catch((error: unknown) => failed.push(`${name}: ${String(error)}`));
    calls += 1;
  };
  const caller = async (index: number): Promise<void> => {
    const resource = `r${index}`;
    const writes = [{ put: `data/${resource}`, value: "x" }];
    while (!isEnough(calls)) {
      await tried("acquire", () =>
        tenure.withLease(resource, (lease) => guard.write(lease, writes)),
      );
      await tried("read", () => tenure.read(resource));
      await tried("list", () => tenure.list("r").next());
    }
  };
  await Promise.all(Array.from({ length: CALLERS }, (_, index) => caller(index)));
  return failed;
}

describe("logins that expire", () => {
  const server = useServer(startEtcd, { rootPassword: "secret", jwtLogins: "1s" });

  test("concurrent calls on one connection wait for its login and survive several renewals of it", async () => {
    const { tenure, counts } = await counted(server());
    expect(await failures(tenure, server(), () => counts.logins >= 6)).toEqual([]);
    expect(counts.duringLogin).toBe(0);
  });
});

describe.each([
  // A change of roles invalidates every JWT, but only those requests with a simple token that it
  // overtakes.
  ["simple", undefined, 1],
  ["JWT", "5m", 2],
])("%s logins that a change of roles invalidates", (_kind, jwtLogins, leastLogins) => {
  const server = useServer(startEtcd, { rootPassword: "secret", jwtLogins });

  test("concurrent calls survive changes of roles by another client", async () => {
    const { tenure, counts } = await counted(server());
    const names = Array.from({ length: 8 }, (_, index) => `role${index}`);
    const changes: Promise<unknown>[] = [];
    // Each change lets the calls that it interrupted finish before the next one.
    const isEnough = (calls: number): boolean => {
      if (calls < (changes.length + 1) * 10 * CALLERS) return false;
      const name = names.pop();
      if (name !== undefined) changes.push(server().call("/v3/auth/role/add", { name }));
      return name === undefined;
    };
    expect(await failures(tenure, server(), isEnough)).toEqual([]);
    await Promise.all(changes);
    expect(counts.logins).toBeGreaterThanOrEqual(leastLogins);
    expect(counts.duringLogin).toBe(0);
  });
});

describe("authentication that is enabled later", () => {
  const server = useServer(startEtcd, { own: true });

  test("a connection with user and password logs in when etcd starts to require it", async () => {
    const { tenure } = await counted(server());
    const lease = await tenure.acquire("r");
    const { call } = server();
    await call("/v3/auth/user/add", { name: "root", password: "secret" });
    await call("/v3/auth/user/grant", { user: "root", role: "root" });
    await call("/v3/auth/enable", {});
    expect((await tenure.read("r")).holder?.token).toBe(lease.token);
    expect(await lease.release()).toBe("released");
  });
});
