// Goal: a password reaches neither the error of a rejected login nor the object of an open Tenure.
// Method: real servers with a password, through each client library; secrets that have to be
// percent-encoded.
import { Redis } from "ioredis";
import pg from "pg";
import postgres from "postgres";
import { createClient } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { redisGuard } from "../../../src/guards/redis/index.ts";
import { connect, type Tenure } from "../../../src/index.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { partsShown, shown, textsOf } from "../../support/stores/secrets.ts";

const RIGHT = "R!ght/Pass?word@1";
/** Made of base64, of punctuation and of Unicode. */
const WRONG = ["Q8x/Zk+7Lw==Vh3", "~|}{`^]#%&@/?:;<", "Ключ密码🔑ñandú"];

async function catchError(call: Promise<unknown>): Promise<Error> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Error)) throw new Error("The call did not fail.");
  return error;
}

/** The same URL with another login. */
function withLogin(url: string, user: string, password: string): string {
  return url.replace(/\/\/(?:[^@]*@)?/, `//${user}:${encodeURIComponent(password)}@`);
}

async function expectClean(target: Promise<Tenure>, secret: string): Promise<void> {
  const tenure = await target;
  onTestFinished(() => tenure.close());
  const lease = await tenure.acquire("redaction");
  expect(partsShown(shown(tenure) + shown(lease), secret)).toEqual([]);
}

describe.each(["ioredis", "redis"] as const)("Redis through %s", (library) => {
  const locked = useServer(startRedis, { password: RIGHT });
  /** AUTH is renamed here, so the server's error repeats the arguments of the unknown command. */
  const renamed = useServer(startRedis, {
    args: ["--rename-command", "AUTH", "LOGIN", "--rename-command", "HELLO", "GREET"],
  });

  test.each(WRONG)("a wrong password is rejected and not shown: %s", async (secret) => {
    for (const user of ["", "someone"]) {
      const url = withLogin(locked().url, user, secret);
      const error = await catchError(connect(`${url}?library=${library}`));
      expect(error.message).toMatch(/refuses this user or password/);
      expect(partsShown(textsOf(error), secret)).toEqual([]);
    }
  });

  test("the cause carries the server's message", async () => {
    const url = withLogin(locked().url, "someone", WRONG[0] ?? "");
    const error = await catchError(connect(`${url}?library=${library}`));
    expect(error.cause).toMatchObject({ message: expect.stringMatching(/^WRONGPASS/) });
  });

  test.each(WRONG)(
    "arguments that the server repeats in its error are not shown: %s",
    async (secret) => {
      const url = withLogin(renamed().url, "someone", secret);
      const error = await catchError(connect(`${url}?library=${library}`));
      expect(error.message).toMatch(/unknown command/i);
      expect(partsShown(textsOf(error), secret)).toEqual([]);
    },
  );

  test("an open Tenure does not show its password", async () => {
    await expectClean(connect(`${locked().url}?library=${library}`), RIGHT);
  });
});

describe("a user's own Redis client with a wrong password", () => {
  const locked = useServer(startRedis, { password: RIGHT });
  const [secret = ""] = WRONG;

  function ioredis(): Redis {
    const { host, port } = locked();
    const login = { username: "someone", password: secret };
    const client = new Redis({ host, port, ...login, retryStrategy: () => null });
    client.on("error", () => undefined);
    onTestFinished(() => client.disconnect());
    return client;
  }

  test("the store's error does not show the password", async () => {
    const error = await catchError(connect(redisStore({ client: ioredis() })));
    expect(error).toMatchObject({ code: expect.stringMatching(/STORE_UN/) });
    expect(partsShown(textsOf(error), secret)).toEqual([]);
  });

  test("the guard's error does not show the password", async () => {
    const guard = redisGuard(ioredis());
    const error = await catchError(guard.set({ resource: "r", token: 1n }, "key", "value"));
    expect(error.message).toMatch(/WRONGPASS|NOAUTH|closed/i);
    expect(partsShown(textsOf(error), secret)).toEqual([]);
    expect(partsShown(textsOf(await catchError(guard.highest("r"))), secret)).toEqual([]);
  });

  test("the store's error does not show the password of a node-redis client", async () => {
    const { host, port } = locked();
    const socket = { host, port, reconnectStrategy: false as const };
    const client = createClient({ socket, username: "someone", password: secret });
    client.on("error", () => undefined);
    await client.connect().catch(() => undefined);
    const error = await catchError(connect(redisStore({ client })));
    expect(partsShown(textsOf(error), secret)).toEqual([]);
  });
});

describe.each(["pg", "postgres"] as const)("PostgreSQL through %s", (library) => {
  const locked = useServer(startPostgres, { password: RIGHT });

  test.each(WRONG)("a wrong password is rejected and not shown: %s", async (secret) => {
    const url = withLogin(locked().url, "postgres", secret);
    const several = url.replace(/@([^/]*)/, "@$1,$1");
    for (const target of [url, several]) {
      const error = await catchError(connect(postgresStore({ url: target, library })));
      expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
      expect(error.message).toMatch(/password authentication failed/);
      expect(partsShown(textsOf(error), secret)).toEqual([]);
    }
  });

  test("an open Tenure does not show its password", async () => {
    await expectClean(connect(postgresStore({ url: locked().url, library })), RIGHT);
  });
});

describe("a user's own PostgreSQL client with a wrong password", () => {
  const locked = useServer(startPostgres, { password: RIGHT });

  test.each(WRONG)("the error does not show the password: %s", async (secret) => {
    const url = withLogin(locked().url, "postgres", secret);
    const pool = new pg.Pool({ connectionString: url });
    const sql = postgres(url, { max: 1 });
    onTestFinished(async () => {
      await pool.end();
      await sql.end({ timeout: 1 });
    });
    for (const client of [pool, sql]) {
      const error = await catchError(connect(postgresStore({ client })));
      expect(error.message).toMatch(/password authentication failed/);
      expect(partsShown(textsOf(error), secret)).toEqual([]);
    }
  });

  test("a URL that the library cannot parse is not shown", async () => {
    const [secret = ""] = WRONG;
    const pool = new pg.Pool({ connectionString: `postgres://u:a#${secret}@h/app` });
    onTestFinished(() => pool.end());
    const error = await catchError(connect(postgresStore({ client: pool })));
    expect(partsShown(textsOf(error), secret)).toEqual([]);
  });
});

describe("etcd", () => {
  const locked = useServer(startEtcd, { rootPassword: RIGHT });

  test.each(WRONG)("a wrong password is rejected and not shown: %s", async (secret) => {
    const error = await catchError(connect(withLogin(locked().url, "root", secret)));
    expect(error.message).toMatch(/refuses this user or password/);
    expect(partsShown(textsOf(error), secret)).toEqual([]);
  });

  test("an open Tenure does not show its password", async () => {
    await expectClean(connect(withLogin(locked().url, "root", RIGHT)), RIGHT);
  });
});

describe("ZooKeeper", () => {
  const server = useServer(startZooKeeper);

  // The digest scheme has no wrong passwords: another password is another user.
  test.each(WRONG)("an open Tenure does not show its password: %s", async (secret) => {
    const root = `redaction-${WRONG.indexOf(secret)}`;
    await expectClean(connect(`${withLogin(server().url, "me", secret)}/${root}`), secret);
  });
});
