// Goal: a malformed or ambiguous URL is rejected before anything is connected; the message says
// what to write instead and never shows a password. A valid URL is parsed into its parts. Method:
// connect() and the URL parsers.
import { describe, expect, test } from "vitest";
import { parsePostgresUrl } from "../../src/clients/postgres/url.ts";
import { parseRedisUrl } from "../../src/clients/redis/url.ts";
import { connect } from "../../src/connect.ts";

const bad: [string, string, RegExp][] = [
  [
    "several hosts of an unspecified kind",
    "redis://u:secret@a,b",
    /cluster=1.*redis\+sentinel:\/\/a,b\/master/,
  ],
  ["a Sentinel without a master", "redis+sentinel://:secret@a:26379", /names the master after/],
  [
    "an unknown setting",
    "redis://:secret@a?prefx=x",
    /unknown setting "prefx"\. Did you mean prefix/,
  ],
  ["an unknown library", "redis://:secret@a?library=x", /"ioredis" or "redis"/],
  ["no host", "redis:", /two slashes.*redis:\/\//],
  ["an @ in the password", "redis://u:se@cret@a", /"@" in its user or password.*%40/],
  ["an empty host", "postgres://u:secret@a,,b/app", /host 2 is not a host name/],
  [
    "a standby as target",
    "postgres://u:secret@a/x?target_session_attrs=standby",
    /read-write or primary/,
  ],
];

describe("a URL", () => {
  test.each(bad)("with %s is rejected", async (_, url, message) => {
    const error = await connect(url).then(
      () => undefined,
      (reason: Error) => reason,
    );
    expect(error).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(message),
    });
    expect(error?.message).not.toMatch(/secret|cret/);
  });

  test("of Sentinels is parsed into hosts, ports, master, database and two logins", () => {
    const url = "rediss+sentinel://me:p%40ss@a,[::1]:7/main/3?sentinel-password=other";
    expect(parseRedisUrl(url).place).toEqual({
      kind: "sentinel",
      isTls: true,
      shown: "a,[::1]:7/main/3",
      master: "main",
      db: 3,
      hosts: [
        { host: "a", port: 26379 },
        { host: "::1", port: 7 },
      ],
      login: { username: "me", password: "p@ss" },
      sentinelLogin: { password: "other" },
    });
  });

  test("of a cluster is parsed into hosts and, separately, the settings of the store", () => {
    const { place, options } = parseRedisUrl("redis://:pw@a:1,b?cluster=1&prefix=x&replicas=0");
    expect(options).toMatchObject({ prefix: "x", replicas: 0, library: undefined });
    expect(place).toMatchObject({
      kind: "cluster",
      isTls: false,
      login: { password: "pw" },
      shown: "a:1,b",
      hosts: [
        { host: "a", port: 1 },
        { host: "b", port: 6379 },
      ],
    });
  });

  test("of one Redis server is parsed into host, port, database and login", () => {
    const { place } = parseRedisUrl("redis://me:p%2Fw@a:1/2?library=redis");
    expect(place).toEqual({
      kind: "server",
      isTls: false,
      at: { host: "a", port: 1 },
      db: 2,
      shown: "a:1/2",
      login: { username: "me", password: "p/w" },
    });
  });

  test("of several PostgreSQL hosts is split into one URL per host, each with all settings", () => {
    const url = "postgres://u:p@a:1,b/app?sslmode=require&target_session_attrs=read-write";
    const urls = parsePostgresUrl(url).hosts;
    expect(urls).toEqual([
      { url: "postgres://u:p@a:1/app?sslmode=require", address: "a:1/app" },
      { url: "postgres://u:p@b/app?sslmode=require", address: "b:5432/app" },
    ]);
  });

  test.each([
    ["postgres:///app?host=/tmp", "postgres:///app?host=%2Ftmp", "localhost:5432/app"],
    ["postgres://u@%2Ftmp/app", "postgres://u@%2Ftmp/app", "localhost:5432/app"],
    ["postgres://u:a b%2F'%40@[::1]:7", "postgres://u:a%20b%2F'%40@[::1]:7", "[::1]:7"],
    ["PostgreSQL://u@h/a b%40c", "postgresql://u@h/a%20b@c", "h:5432/a%20b@c"],
  ])("of one PostgreSQL host, %s, is rewritten for the client library", (text, url, address) => {
    expect(parsePostgresUrl(text).hosts).toEqual([{ url, address }]);
  });
});
