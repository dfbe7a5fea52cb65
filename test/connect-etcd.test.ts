// Goal: an etcd: URL leads to the options that it names, and a bad one gets an error that says what to change, before
// anything is connected. Method: through connect() where it must fail, through the parser where it must not.
import { describe, expect, test } from "vitest";
import { connect } from "../src/connect.ts";
import { optionsOf } from "../src/stores/etcd/url.ts";

describe("a bad etcd: URL", () => {
  test.each([
    ["no host", "etcd://", /needs at least one host, e.g. "etcd:/],
    ["no host but a path", "etcd:///p", /needs at least one host/],
    ["a bad port", "etcd://a:1,b:x/p", /looks like 10.0.0.1:2379/],
    ["an unknown setting", "etcd://a?prefix=p", /no setting "prefix".*is the path/],
    ["a user alone", "etcd://root@a:2379", /belong together: etcd:\/\/user:password@host/],
    ["a bad escape", "etcd://a:%zz@b", /password of the etcd: URL is not percent-encoded/],
    ["a bad prefix", "etcd://a/x%20y", /`prefix` must be 1 to 128/],
    ["a bad limit", "etcd://a/?connect-ms=soon", /`connectMs` must be a number/],
    ["a file that is not there", "etcds://a?cert=none.pem", /`cert`.*cannot be read: none.pem/],
    ["a setting for TLS without it", "etcd://a?servername=b", /begin the URL with etcds:/],
  ])("with %s is refused with what to write instead", async (_, url, message) => {
    const error: unknown = await connect(url).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT", retryable: false });
    expect((error as Error).message).toMatch(message);
  });

  test("never repeats a password", async () => {
    for (const url of ["etcd://root:geheim@a:b:c/p", "etcd://root:geheim@/p"]) {
      const error: unknown = await connect(url).catch((reason: unknown) => reason);
      expect(String(error)).not.toContain("geheim");
    }
  });
});

describe("a good etcd: URL", () => {
  test.each([
    ["etcd://a", { endpoints: ["a"] }],
    ["etcd://a:1,b:2,[::1]:3/p/q", { endpoints: ["a:1", "b:2", "[::1]:3"], prefix: "p/q" }],
    ["etcds://a/?connect-ms=700", { endpoints: ["a"], tls: {}, connectMs: 700 }],
    ["etcds://a?servername=b", { endpoints: ["a"], tls: { servername: "b" } }],
    ["etcd://u%3A:p%40:@a", { endpoints: ["a"], username: "u:", password: "p@:" }],
    ["ETCD://u:p@w@a", { endpoints: ["a"], username: "u", password: "p@w" }],
  ])("%s", (url, options) => {
    expect(optionsOf(url)).toEqual(options);
  });
});
