// Goal: S8: a URL parser accepts any text and either returns the parts of the URL or throws an
// InvalidArgumentError. It reads the same user and password as the client library. Settings mean
// the same on every store. Method: arbitrary texts, and texts made of the pieces of URLs.
import fc from "fast-check";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { fromUrl } from "../../connect.ts";
import { isTenureError } from "../../core/errors.ts";
import { redisStore } from "../../stores/redis/index.ts";
import { checkEtcdOptions } from "../etcd/options.ts";
import { parseEtcdUrl } from "../etcd/url.ts";
import { parsePostgresUrl } from "../postgres/url.ts";
import { parseRedisUrl } from "../redis/url.ts";
import { parseSqliteUrl } from "../sqlite/url.ts";
import { checkZooKeeperOptions, parseZooKeeperUrl } from "../zookeeper/options.ts";

const parsers: [string, (text: string) => unknown][] = [
  ["parseRedisUrl", (text) => parseRedisUrl(text)],
  ["parsePostgresUrl", (text) => parsePostgresUrl(text)],
  ["checkEtcdOptions", (url) => checkEtcdOptions({ url })],
  ["checkZooKeeperOptions", (url) => checkZooKeeperOptions({ url })],
  ["parseSqliteUrl", parseSqliteUrl],
];

const SCHEMES = ["redis", "rediss+sentinel", "postgres", "etcd", "etcds", "zookeeper", "sqlite"];
const MARKS = "://|:|//|/|@|?|#|&|=|,|%|%2F|%zz|%ff|[|]|[::1]".split("|");
const WORDS = "u|pw|host|127.0.0.1|6379|99999|cluster=1|prefix|prefix=a|ca=x".split("|");
const ODD = ["\0", "\n", " ", '"', "\\", "é", "🙂", "\ud800", "\udc00", "＠", "__proto__"];
const PIECES = [...MARKS, ...WORDS, ...ODD, "x".repeat(300)];
const texts = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join("")),
);
const urls = fc.oneof(
  texts,
  fc.tuple(fc.constantFrom(...SCHEMES), texts).map(([scheme, rest]) => `${scheme}://${rest}`),
  fc.tuple(fc.constantFrom(...SCHEMES), texts).map(([scheme, rest]) => `${scheme}:${rest}`),
);

function orInvalid<T>(parse: () => T): T | undefined {
  try {
    return parse();
  } catch (error) {
    if (isTenureError(error, "INVALID_ARGUMENT")) return undefined;
    throw error;
  }
}

function readByPg(url: string): { user?: unknown; password?: unknown; host: string } {
  const { user, password, host } = new pg.Client({ connectionString: url });
  return { user, password, host };
}

describe("S8: any text", () => {
  test.each(parsers)("given to %s is parsed or is an invalid argument", (_, parse) => {
    fc.assert(
      fc.property(urls, (text) => void orInvalid(() => parse(text))),
      { numRuns: 2_000 },
    );
  });

  test("given to connect() is parsed or is an invalid argument", async () => {
    const property = fc.asyncProperty(urls, async (text) => {
      const error = await fromUrl(text).then(
        () => undefined,
        (reason: unknown) => reason,
      );
      expect(error === undefined || isTenureError(error, "INVALID_ARGUMENT")).toBe(true);
    });
    await fc.assert(property, { numRuns: 2_000 });
  });
});

describe("a malformed URL", () => {
  test.each([
    ["half of a surrogate pair", "u:\ud800@h", /a character in its user or password/],
    ["a NUL character", "u:%00@h", /a character in its user or password/],
    ["a malformed address", "[:::]", /host 1 is not a host name or address/],
    ["a port of 0", "h:0", /host 1 is not a host name or address/],
    ["a fragment", "h/0#x", /"#".*%23/],
    ["malformed UTF-8", "u:%ff@h", /"%" in its user or password.*%25/],
  ])("with %s is an invalid argument", (_, rest, message) => {
    expect(() => parseRedisUrl(`redis://${rest}`)).toThrow(message);
    expect(() => parsePostgresUrl(`postgres://${rest}`)).toThrow(message);
    expect(() => parseEtcdUrl(`etcd://${rest}`)).toThrow(message);
    expect(() => parseZooKeeperUrl(`zookeeper://${rest}`)).toThrow(message);
  });
});

describe("the login of a URL", () => {
  const words = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });

  test("is the same from the URL and from the options, on every store", () => {
    const property = fc.property(words, words, (user, password) => {
      const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
      const read = { username: user, password };
      expect(parseRedisUrl(`redis://${login}@h`).place.login).toEqual(read);
      expect(parseRedisUrl("redis://h", read).place.login).toEqual(read);
      expect(parseEtcdUrl(`etcd://${login}@h`).options).toMatchObject(read);
      expect(parseZooKeeperUrl(`zookeeper://${login}@h`).options).toMatchObject(read);
      const byUrl = parsePostgresUrl(`postgres://${login}@h/app`);
      const byOptions = parsePostgresUrl("postgres://h/app", read);
      for (const { hosts } of [byUrl, byOptions])
        expect(readByPg(hosts[0]?.url ?? "")).toEqual({ user, password, host: "h" });
    });
    fc.assert(property, { numRuns: 1_000 });
  });

  test("is read by pg as we read it, whatever else the URL contains", () => {
    const property = fc.property(urls, (text) => {
      const [host] = orInvalid(() => parsePostgresUrl(text).hosts) ?? [];
      // Without a host, the library takes the host from its environment.
      if (host === undefined || /:\/\/(?:[^@]*@)?[/?]|:\/\/(?:[^@]*@)?$/.test(host.url)) return;
      const { username, password } = new URL(host.url);
      const read = readByPg(host.url);
      if (username !== "") expect(read.user).toBe(decodeURIComponent(username));
      if (password !== "") expect(read.password).toBe(decodeURIComponent(password));
    });
    fc.assert(property, { numRuns: 2_000 });
  });
});

describe("settings", () => {
  const kinds: [string, (query: string) => unknown, readonly string[]][] = [
    ["redis", (query) => parseRedisUrl(`redis://h?${query}`).options, ["library"]],
    ["postgres", (query) => parsePostgresUrl(`postgres://h/app?${query}`).options, ["library"]],
    ["etcd", (query) => parseEtcdUrl(`etcd://h?${query}`).options, []],
    ["zookeeper", (query) => parseZooKeeperUrl(`zookeeper://h?${query}`).options, []],
  ];

  test.each(kinds)("prefix, connect-ms and library work in a %s: URL", (_, parse, own) => {
    expect(parse("prefix=billing&connect-ms=700")).toMatchObject({
      prefix: "billing",
      connectMs: 700,
    });
    if (own.includes("library")) expect(parse("library=x")).toMatchObject({ library: "x" });
  });

  test.each(kinds)("an unknown one in a %s: URL is rejected with the nearest", (_, parse) => {
    expect(() => parse("prefx=a")).toThrow(/unknown setting "prefx"\. Did you mean prefix\?/);
    expect(() => parse("conect-ms=a")).toThrow(/Did you mean connect-ms\?/);
    expect(() => parse("prefix=a&bogus-name=1")).toThrow(/number 2 after.*known are prefix/);
    expect(() => parse("prefix=a&bogus-name=1")).not.toThrow(/bogus/);
    expect(() => parse("prefix=a&b")).toThrow(/setting without "=".*%26/);
  });

  test("an unknown one in a sqlite: URL is rejected with the nearest", () => {
    expect(parseSqliteUrl("sqlite:./a.db?library=node:sqlite&connect-ms=9")).toMatchObject({
      file: "./a.db",
      library: "node:sqlite",
      connectMs: 9,
    });
    expect(() => parseSqliteUrl("sqlite:./a.db?libary=x")).toThrow(/Did you mean library\?/);
  });

  test("of libpq are passed on, and others in a postgres: URL are not", () => {
    const query = "sslmode=require&application_name=billing&prefix=a";
    expect(parsePostgresUrl(`postgres://h/app?${query}`).hosts[0]?.url).toBe(
      "postgres://h/app?sslmode=require&application_name=billing",
    );
    expect(() => parsePostgresUrl("postgres://h/app?sslmod=x")).toThrow(/Did you mean sslmode\?/);
    expect(() => parsePostgresUrl("postgres://h/app?schema=x")).toThrow(
      /schema is the setting prefix/,
    );
  });

  test("in the URL and in the options are rejected", () => {
    const twice = /`prefix` in its options and in the URL/;
    expect(() => checkEtcdOptions({ url: "etcd://h/a", prefix: "b" })).toThrow(twice);
    expect(() => checkZooKeeperOptions({ url: "zookeeper://h/a", prefix: "b" })).toThrow(twice);
    expect(() => redisStore({ url: "redis://h?prefix=a", prefix: "b" })).toThrow(twice);
    expect(() => redisStore({ url: "redis://u:p@h", username: "u" })).toThrow(/`username` in its/);
    expect(() => parseEtcdUrl("etcd://h/a?prefix=b")).toThrow(/prefix as its path and as `prefix`/);
  });

  test("with an unknown library are rejected", () => {
    const library = "sqlite3" as "redis";
    expect(() => redisStore({ url: "redis://h", library })).toThrow(/"ioredis" or "redis"/);
    expect(() => redisStore({ url: "redis://h?library=x" })).toThrow(/"ioredis" or "redis"/);
  });
});
