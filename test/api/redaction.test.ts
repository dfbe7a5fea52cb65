// Goal: no error shows any part of a secret, no matter what is wrong with the URL or the options,
// and the message still says what to change. Method: malformed URLs from two reviews, and URLs
// generated around known secrets, go through connect(). Every text of the error and its causes is
// searched for parts of the secret. Nothing listens on port 1.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { openDatabase } from "../../src/cli/backends/guarded-database.ts";
import { toFailure } from "../../src/cli/errors.ts";
import { Options } from "../../src/cli/parsing/arguments.ts";
import { connect } from "../../src/connect.ts";
import { isTenureError } from "../../src/core/errors.ts";
import { etcdGuard } from "../../src/guards/etcd/index.ts";
import { type PostgresTarget, postgresGuard } from "../../src/guards/postgres/index.ts";
import { redisGuard } from "../../src/guards/redis/index.ts";
import { zookeeperGuard } from "../../src/guards/zookeeper/index.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { type EtcdTransport, etcdStore } from "../../src/stores/etcd/index.ts";
import { postgresStore } from "../../src/stores/postgres/index.ts";
import { redisStore } from "../../src/stores/redis/index.ts";
import { zookeeperStore } from "../../src/stores/zookeeper/index.ts";
import { controlOf, partsShown, textsOf } from "../support/stores/secrets.ts";

const HOST = "127.0.0.1:1";
const SECRET = "HUSHSECR";
const SCHEMES = ["redis", "rediss", "postgres", "postgresql", "etcd", "etcds", "zookeeper"];

/** The error of a call that must fail. */
async function catchError(call: () => unknown): Promise<Error> {
  const error = await new Promise((resolve) => {
    resolve(call());
  }).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  if (!(error instanceof Error)) throw new Error("The call did not fail.");
  return error;
}

const catchConnectError = (target: unknown): Promise<Error> =>
  catchError(() => connect(target as string));

describe("a malformed URL is not repeated in the error", () => {
  test.each<[string, unknown, RegExp]>([
    ["double quotes", `"postgres://u:${SECRET}@${HOST}/app"`, /quotation mark.*remove/i],
    ["single quotes", `'redis://u:${SECRET}@${HOST}'`, /quotation mark.*remove/i],
    ["a closing quote", `redis://u:${SECRET}@${HOST}"`, /quotation mark.*remove/i],
    ["a leading blank", ` postgres://u:${SECRET}@${HOST}/app`, /space or a line break/],
    ["a line break at its end", `postgres://u:${SECRET}@${HOST}/app\n`, /space or a line break/],
    ["a missing colon", `postgres//u:${SECRET}@${HOST}/app`, /colon is missing.*postgres:\/\//],
    ["a variable", `DATABASE_URL=postgres://u:${SECRET}@${HOST}/app`, /variable.*after the "="/],
    ["an exported variable", `export X="redis://u:${SECRET}@${HOST}"`, /variable.*after the "="/],
    ["no scheme", `:${SECRET}@${HOST}`, /no scheme.*redis:\/\//],
    ["no scheme but a user", `u:${SECRET}@${HOST}`, /Known are .*redis:/],
    ["a secret as scheme", `${SECRET}://u@${HOST}`, /no store for this scheme.*Known are .*redis:/],
    ["no slashes", `postgres:u:${SECRET}@${HOST}/app`, /two slashes.*postgres:\/\//],
    ["one slash", `postgres:/u:${SECRET}@${HOST}/app`, /two slashes.*postgres:\/\//],
    ["no slashes (redis)", `redis:u:${SECRET}@${HOST}`, /two slashes.*redis:\/\//],
    ["no slashes (etcd)", `etcd:u:${SECRET}@${HOST}`, /two slashes.*etcd:\/\//],
    ["no slashes (zookeeper)", `zookeeper:u:${SECRET}@${HOST}`, /two slashes.*zookeeper:\/\//],
    ["a user but no host", `postgres://u:x@/${SECRET}`, /a user but no host.*%40/],
    ["a login for a file", `sqlite://u:${SECRET}@h/app.db`, /names a file/],
    ["another URL as file", `sqlite:postgres://u:${SECRET}@h/app`, /names a file/],
    ["a URL object", new URL(`postgres://u:${SECRET}@${HOST}/app`), /URL object.*url\.href/],
    ["the URL object of memory:", new URL("memory:"), /URL object.*url\.href/],
    ["an object", { url: `postgres://u:${SECRET}@${HOST}/app` }, /got an object/],
    ["a list", [`redis://u:${SECRET}@${HOST}`], /got an object/],
    ["a missing @", `redis://u:${SECRET}`, /not a host name.*"@"/],
    ["a login after the host", `redis://${HOST}@u:${SECRET}`, /not a host name.*"@"/],
    ["a login after the host", `etcd://${HOST}@u:${SECRET}`, /not a host name.*"@"/],
    ["a login after the host", `zookeeper://${HOST}@u:${SECRET}`, /not a host name.*"@"/],
    ["a login after the host", `postgres://${HOST}@u:${SECRET}/app`, /not a host name.*"@"/],
    ["a bad port", `redis://u:${SECRET}@h:99999`, /not a host name/],
    [
      "a part of a setting",
      `redis+sentinel://h/m?sentinel-password=a&${SECRET}`,
      /contains "&".*%26/,
    ],
    ["a part of a setting", `redis+sentinel://h/m?sentinel-password=a&${SECRET}=b`, /known are/],
    ["a part of a setting", `postgres://h/app?password=a&${SECRET}`, /contains "&".*%26/],
    ["a secret as path", `redis://u:${SECRET}@${HOST}/${SECRET}`, /number of a database/],
    ["a key instead of its file", `etcds://${HOST}?key=${SECRET}`, /`key`.*cannot be read/],
  ])("with %s", async (_, target, advice) => {
    const error = await catchConnectError(target);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(error.message).toMatch(advice);
    expect(partsShown(textsOf(error), SECRET)).toEqual([]);
  });
});

describe.each(SCHEMES)("a reserved character in the password of a %s: URL", (scheme) => {
  test.each([
    ["/", "%2F"],
    ["?", "%3F"],
    ["#", "%23"],
    ["@", "%40"],
    ["%", "%25"],
  ])("%s: the error says to write %s", async (character, code) => {
    for (const login of [
      `u:HUSH${character}SECR`,
      `:HUSH${character}SECR`,
      `u:1234${character}SECR`,
    ]) {
      for (const hosts of [HOST, `${HOST},127.0.0.1:2`]) {
        const error = await catchConnectError(`${scheme}://${login}@${hosts}`);
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
        expect(error.message).toContain(`"${character}"`);
        expect(error.message).toContain(code);
        for (const secret of ["HUSH", "1234", "SECR"])
          expect(partsShown(textsOf(error), secret)).toEqual([]);
      }
    }
  });

  test("the error names several of them", async () => {
    const error = await catchConnectError(`${scheme}://:topSECR@ET/9?x@${HOST}`);
    expect(error.message).toMatch(/"@".*"\/".*"\?".*%40.*%2F.*%3F/);
    expect(partsShown(textsOf(error), "topSECR@ET/9?x")).toEqual([]);
  });
});

describe("an invalid client or option is not repeated in the error", () => {
  const url = `postgres://u:${SECRET}@h/db`;
  /** The parts of the pool inside Knex that matter here. */
  const tarn = { acquire: () => url, release: () => undefined, min: 2, max: 10, url };
  const opened = (open: (parts: ReturnType<typeof systemParts>) => unknown): unknown =>
    open(systemParts());
  const castTo = <T>(value: unknown): T => value as T;

  test.each<[string, () => unknown, RegExp]>([
    [
      "text as client",
      () => postgresStore({ client: castTo(url) }),
      /`client` a Pool .*Client of pg/,
    ],
    ["Knex's pool", () => postgresStore({ client: castTo(tarn) }), /as `client`.*Knex/],
    [
      "null as client",
      () => postgresStore({ client: castTo(null) }),
      /`client` a Pool .*Client of pg/,
    ],
    ["a URL object", () => postgresStore({ url: castTo(new URL(url)) }), /URL object.*url\.href/],
    [
      "a listening URL",
      () => postgresStore({ url: `postgres://${HOST}/a`, listen: `x${url}` }),
      /./,
    ],
    ["text as Redis client", () => opened(redisStore({ client: castTo(url) })), /ioredis/],
    ["a URL object for Redis", () => redisStore({ url: castTo(new URL(url)) }), /url\.href/],
    ["a foreign URL for etcd", () => etcdStore({ url }), /begins with etcd:/],
    [
      "a URL as host of etcd",
      () => etcdStore({ url: `etcd://h1,u:${SECRET}` }),
      /host 2 is not a host name/,
    ],
    ["text as client of etcd", () => etcdStore({ client: castTo(url) }), /`client`/],
    ["a foreign URL for ZooKeeper", () => zookeeperStore({ url }), /begins with zookeeper:/],
    [
      "a URL as host of ZooKeeper",
      () => zookeeperStore({ url: `zookeeper://h1,u:${SECRET}` }),
      /host 2 is not a host name/,
    ],
    [
      "an empty user",
      () => etcdStore({ url: "etcd://h", username: "", password: SECRET }),
      /`username` must be text/,
    ],
    [
      "a password that is not text",
      () => redisStore({ url: "redis://h", password: castTo([SECRET]) }),
      /`password` must be text/,
    ],
    ["text for the guard", () => postgresGuard(castTo<PostgresTarget>(url)), /postgresGuard/],
    ["text for the guard", () => redisGuard(castTo(url)), /redisGuard/],
    ["a bad URL for the guard", () => etcdGuard(`"etcd://u:${SECRET}@h"`), /quotation mark/],
    ["a bad URL for the guard", () => zookeeperGuard(` zookeeper://u:${SECRET}@h`), /a space/],
  ])("%s", async (_, call, advice) => {
    const error = await catchError(call);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(error.message).toMatch(advice);
    expect(partsShown(textsOf(error), SECRET)).toEqual([]);
  });
});

describe("an error of another library is attached without its secrets", () => {
  const url = `postgres://u:a#${SECRET}@h/db`;
  /** Like older releases of pg, whose error contains the whole URL as `input`. */
  const pool = { totalCount: 0, connect: async () => new URL(url) as never };
  const rejected = async (error: object): Promise<never> => Promise.reject(error);
  const transport: EtcdTransport = {
    place: "etcd",
    call: () => ({
      answer: rejected(Object.assign(new Error(url), { code: 7, metadata: { token: SECRET } })),
      cancel: () => undefined,
    }),
    stream: () => ({ send: () => undefined, cancel: () => undefined }),
    reset: () => undefined,
    close: () => undefined,
  };
  const dial = (): Promise<never> =>
    rejected(Object.assign(new Error(`tunnel ${url}`), { options: { password: SECRET } }));

  test.each<[string, () => unknown]>([
    ["a pool of the user's own", () => connect(postgresStore({ client: pool }))],
    ["a pool given to the guard", () => postgresGuard(pool).highest("r")],
    ["a channel to etcd", () => connect(etcdStore({ client: transport }))],
    ["a channel given to the guard", () => etcdGuard({ client: transport }).highest("r")],
    [
      "a tunnel to ZooKeeper",
      () => connect(zookeeperStore({ url: "zookeeper://h", connect: dial })),
    ],
  ])("%s", async (_, call) => {
    const error = await catchError(call);
    expect(isTenureError(error)).toBe(true);
    expect(error.cause).toBeInstanceOf(Error);
    expect(partsShown(textsOf(error), SECRET)).toEqual([]);
  });
});

describe("the command line", () => {
  const database = (text: string): Promise<Error> =>
    catchError(() => openDatabase(new Options(new Map([["database", text]]))));

  test.each([
    [`"postgres://u:${SECRET}@h/app"`, /--database.*quotation mark/],
    [`postgres://u:a/${SECRET}@h/app`, /%2F/],
    [`postgres://u:${SECRET}@${HOST}/app`, /127\.0\.0\.1:1\/app cannot be reached/],
    [`postgres://u:${SECRET}@${HOST},h2/app`, /--database names one host/],
    [`mysql://u:${SECRET}@h/app`, /postgres: or sqlite: URL/],
    [`sqlite://u:${SECRET}@h/app`, /names a file/],
  ])("rejects --database %s without showing it", async (text, advice) => {
    const error = await database(text);
    expect(error.message).toMatch(advice);
    expect(partsShown(textsOf(error), SECRET)).toEqual([]);
  });

  test("prints an unexpected error without logins", () => {
    const failure = toFailure(new Error(`cannot open redis://u:${SECRET}@h`));
    expect(failure.message).toMatch(/cannot open redis:\/\/\*\*\*@h/);
    expect(partsShown(failure.message, SECRET)).toEqual([]);
  });
});

const base64 = [..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="];
const punctuation = [..."!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~ \tab12XY"];
const unicode = [..."äßéñøЯж漢字あ한🙂𝒳\u0301\u200d\u00a0＠／：ab1"];

const secrets = fc.oneof(
  ...[base64, punctuation, unicode].map((alphabet) =>
    fc.string({ unit: fc.constantFrom(...alphabet), minLength: 5, maxLength: 40 }),
  ),
);

/** URLs around a secret. `raw` is the secret itself, `code` is percent-encoded. */
const shapes: Readonly<Record<string, (scheme: string, raw: string, code: string) => string>> = {
  wellFormed: (scheme, _raw, code) => `${scheme}://user:${code}@${HOST}`,
  withoutUser: (scheme, _raw, code) => `${scheme}://:${code}@${HOST}`,
  severalHosts: (scheme, _raw, code) => `${scheme}://u:${code}@${HOST},127.0.0.1:2/x?cluster=1`,
  unescaped: (scheme, raw) => `${scheme}://user:${raw}@${HOST}`,
  unescapedAlone: (scheme, raw) => `${scheme}://:${raw}@${HOST}`,
  unescapedWithPath: (scheme, raw) => `${scheme}://user:${raw}@${HOST}/name?x=y`,
  unescapedSeveral: (scheme, raw) => `${scheme}://user:${raw}@${HOST},127.0.0.1:2/name`,
  afterDigits: (scheme, raw) => `${scheme}://user:12/${raw}@${HOST}`,
  asQuestion: (scheme, raw) => `${scheme}://user:12?${raw}@${HOST}`,
  quoted: (scheme, raw) => `"${scheme}://user:${raw}@${HOST}"`,
  blank: (scheme, raw) => ` ${scheme}://user:${raw}@${HOST}`,
  lineBreak: (scheme, raw) => `${scheme}://user:${raw}@${HOST}\n`,
  variable: (scheme, raw) => `DATABASE_URL=${scheme}://user:${raw}@${HOST}`,
  colonless: (scheme, raw) => `${scheme}//user:${raw}@${HOST}`,
  slashless: (scheme, raw) => `${scheme}:user:${raw}@${HOST}`,
  oneSlash: (scheme, raw) => `${scheme}:/user:${raw}@${HOST}`,
  schemeless: (_scheme, raw) => `user:${raw}@${HOST}`,
  onlyPassword: (_scheme, raw) => `:${raw}@${HOST}`,
  asScheme: (_scheme, raw) => `${raw}://user@${HOST}`,
  alone: (_scheme, raw) => raw,
  unknownScheme: (_scheme, raw) => `mongodb://user:${raw}@${HOST}`,
  // With an "@" this would be a well-formed URL whose host and path happen to look like that.
  hostless: (scheme, raw) => `${scheme}://user:x${raw.replaceAll("@", "")}`,
  swapped: (scheme, raw) => `${scheme}://${HOST}@user:x${raw}`,
  badPort: (scheme, raw) => `${scheme}://user:${raw}@127.0.0.1:x`,
  emptyHost: (scheme, raw) => `${scheme}://user:${raw}@,`,
  unknownSetting: (scheme, raw) => `${scheme}://${HOST}?nothing=1&${raw}`,
  inFile: (scheme, raw) => `sqlite:${scheme}://user:${raw}@${HOST}`,
};

const urls = fc.record({
  secret: secrets,
  scheme: fc.constantFrom(...SCHEMES),
  shape: fc.constantFrom(...Object.keys(shapes)),
});

describe("generated URLs", () => {
  const buildUrl = (shape: string, scheme: string, secret: string): string =>
    shapes[shape]?.(scheme, secret, encodeURIComponent(secret)) ?? "";

  test("S8: no part of a secret is shown, and every failure is an error of Tenure", async () => {
    const property = fc.asyncProperty(urls, async ({ secret, scheme, shape }) => {
      const url = buildUrl(shape, scheme, secret);
      const error = await catchConnectError(url);
      if (!isTenureError(error)) throw new Error(`Not an error of Tenure: ${String(error)}`);
      const text = textsOf(error);
      if (partsShown(text, secret).length === 0) return;
      // A word of the message may match a part of the secret by chance.
      const control = textsOf(await catchConnectError(buildUrl(shape, scheme, controlOf(secret))));
      expect(partsShown(text, secret, control)).toEqual([]);
    });
    await fc.assert(property, { numRuns: 3_000 });
  }, 120_000);
});
