// Goal: a valid etcd: URL is parsed into options. An invalid one is rejected before anything is
// connected, and the message says what to change. Method: connect() for invalid URLs, the parser
// for valid ones.
import { describe, expect, test } from "vitest";
import { parseEtcdUrl } from "../../src/clients/etcd/url.ts";
import { connect } from "../../src/connect.ts";

describe("an invalid etcd: URL", () => {
  test.each([
    ["no host", "etcd://", /host 1 is not a host name/],
    ["no host but a path", "etcd:///p", /host 1 is not a host name/],
    ["a bad port", "etcd://a:1,b:x/p", /host 2 is not a host name/],
    ["an unknown setting", "etcd://a?prefx=p", /unknown setting.*Did you mean prefix/],
    [
      "a user alone",
      "etcd://root@a:2379",
      /user and password together: etcd:\/\/user:password@host/,
    ],
    ["a bad escape", "etcd://a:%zz@b", /"%" in its user or password.*%25/],
    ["a bad prefix", "etcd://a/x%20y", /`prefix` must be 1 to 128/],
    ["a bad limit", "etcd://a/?connect-ms=soon", /`connectMs` must be a number/],
    ["a file that does not exist", "etcds://a?cert=none.pem", /`cert`.*cannot be read \(ENOENT\)/],
    ["a setting for TLS without it", "etcd://a?servername=b", /begin the URL with etcds:/],
  ])("with %s is rejected, and the message says what to write instead", async (_, url, message) => {
    const error: unknown = await connect(url).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT", retryable: false });
    expect((error as Error).message).toMatch(message);
  });

  test("is rejected without repeating its password", async () => {
    for (const url of ["etcd://root:geheim@a:b:c/p", "etcd://root:geheim@/p"]) {
      const error: unknown = await connect(url).catch((reason: unknown) => reason);
      expect(String(error)).not.toContain("geheim");
    }
  });
});

describe("a valid etcd: URL", () => {
  test.each([
    ["etcd://a", { hosts: ["a:2379"] }],
    ["etcd://a:1,b:2,[::1]:3/p/q", { hosts: ["a:1", "b:2", "::1:3"], prefix: "p/q" }],
    ["etcd://a?prefix=p/q", { hosts: ["a:2379"], prefix: "p/q" }],
    ["etcds://a/?connect-ms=700", { hosts: ["a:2379"], isTls: true, connectMs: 700 }],
    ["etcds://a?servername=b", { hosts: ["a:2379"], isTls: true, tls: { servername: "b" } }],
    ["etcd://u%3A:p%40:@a", { hosts: ["a:2379"], username: "u:", password: "p@:" }],
    ["ETCD://u:p%40w@a", { hosts: ["a:2379"], username: "u", password: "p@w" }],
  ])("%s is parsed", (url, expected) => {
    const { hosts, isTls, options } = parseEtcdUrl(url);
    const named = hosts.map(({ host, port }) => `${host}:${port}`);
    expect({ ...options, hosts: named, isTls }).toEqual({ isTls: false, ...expected });
  });
});
