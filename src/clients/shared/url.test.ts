// Goal: S8: a URL parser takes any text: it returns what the URL names, or throws an InvalidArgumentError. What it reads as user and
// password is what the client library reads. Method: generated texts, arbitrary ones and ones made of the pieces of URLs.
import fc from "fast-check";
import pg from "pg";
import { describe, expect, test } from "vitest";
import { fromUrl } from "../../connect.ts";
import { isTenureError } from "../../core/errors.ts";
import { sqliteOptionsOf } from "../../stores/sqlite/url.ts";
import { settingsOf as etcdSettings } from "../etcd/options.ts";
import { etcdOptionsOf } from "../etcd/url.ts";
import { hostUrlsOf, postgresOptionsOf } from "../postgres/url.ts";
import { placeOf, redisOptionsOf } from "../redis/url.ts";
import { settingsOf as zookeeperSettings } from "../zookeeper/options.ts";
import { zookeeperOptionsOf } from "../zookeeper/url.ts";

const parsers: [string, (text: string) => unknown][] = [
  ["redisOptionsOf", redisOptionsOf],
  ["placeOf", placeOf],
  ["postgresOptionsOf", postgresOptionsOf],
  ["etcdOptionsOf", (text) => etcdSettings(etcdOptionsOf(text))],
  ["zookeeperOptionsOf", (text) => zookeeperSettings(zookeeperOptionsOf(text))],
  ["sqliteOptionsOf", sqliteOptionsOf],
];

const SCHEMES = ["redis", "rediss+sentinel", "postgres", "etcd", "etcds", "zookeeper", "sqlite"];
const PIECES = [
  ...[
    "://",
    ":",
    "//",
    "/",
    "@",
    "?",
    "#",
    "&",
    "=",
    ",",
    "%",
    "%2F",
    "%zz",
    "%ff",
    "[",
    "]",
    "[::1]",
  ],
  ...["u", "pw", "host", "127.0.0.1", "6379", "99999", "cluster=1", "prefix", "schema=a", "ca=x"],
  ...[
    "\0",
    "\n",
    " ",
    '"',
    "\\",
    "é",
    "🙂",
    "\ud800",
    "\udc00",
    "＠",
    "__proto__",
    "x".repeat(300),
  ],
];
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

describe("a URL that no server could have", () => {
  test.each([
    ["half of a surrogate pair", "u:\ud800@h", /a character in its user or password/],
    ["a NUL character", "u:%00@h", /a character in its user or password/],
    ["an address that is none", "[:::]", /host 1 is not a host name or address/],
    ["a port of 0", "h:0", /host 1 is not a host name or address/],
    ["a fragment", "h/0#x", /"#".*%23/],
    ["no UTF-8", "u:%ff@h", /"%" in its user or password.*%25/],
  ])("with %s is an invalid argument", (_, rest, message) => {
    expect(() => placeOf(`redis://${rest}`)).toThrow(message);
    expect(() => hostUrlsOf(`postgres://${rest}`)).toThrow(message);
    expect(() => etcdOptionsOf(`etcd://${rest}`)).toThrow(message);
    expect(() => zookeeperOptionsOf(`zookeeper://${rest}`)).toThrow(message);
  });
});

describe("the login of a URL", () => {
  const words = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });

  test("is the one that was encoded into it, on every store", () => {
    const property = fc.property(words, words, (user, password) => {
      const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}`;
      expect(placeOf(`redis://${login}@h`).login).toEqual({ username: user, password });
      expect(etcdOptionsOf(`etcd://${login}@h`)).toMatchObject({ username: user, password });
      expect(zookeeperOptionsOf(`zookeeper://${login}@h`).auth).toEqual({ user, password });
      const [host] = hostUrlsOf(`postgres://${login}@h/app`);
      expect(readByPg(host?.url ?? "")).toEqual({ user, password, host: "h" });
    });
    fc.assert(property, { numRuns: 1_000 });
  });

  test("is read by pg as we read it, whatever else the URL contains", () => {
    const property = fc.property(urls, (text) => {
      const [host] = orInvalid(() => hostUrlsOf(text)) ?? [];
      // Without a host the library takes that of its environment, in ways of its own.
      if (host === undefined || /:\/\/(?:[^@]*@)?[/?]|:\/\/(?:[^@]*@)?$/.test(host.url)) return;
      const { username, password } = new URL(host.url);
      const read = readByPg(host.url);
      if (username !== "") expect(read.user).toBe(decodeURIComponent(username));
      if (password !== "") expect(read.password).toBe(decodeURIComponent(password));
    });
    fc.assert(property, { numRuns: 2_000 });
  });
});
