// Goal: every part of a URL reaches the settings, and invalid input is rejected before anything is
// connected, with advice and without a password in the message.
import { describe, expect, test } from "vitest";
import { checkZooKeeperOptions, parseZooKeeperUrl, type ZooKeeperOptions } from "./options.ts";

describe("a URL", () => {
  test("names hosts, user, prefix and settings", () => {
    const url = "zookeeper://me%40home:s%3Acret@h1:2181,h2,[::1]:2183/apps/a%20b?tick-ms=500";
    const login = { username: "me@home", password: "s:cret" };
    expect(parseZooKeeperUrl(url).options).toMatchObject({ ...login, tickMs: 500 });
    const settings = checkZooKeeperOptions({ url });
    expect(settings.link).toMatchObject({ auth: "me@home:s:cret", connectMs: 5_000 });
    expect(settings.link.hosts).toEqual([
      { host: "h1", port: 2181 },
      { host: "h2", port: 2181 },
      { host: "::1", port: 2183 },
    ]);
    expect(settings.names.leases).toBe("/apps/a b/leases");
    expect(settings.acl).toEqual({ scheme: "auth", id: "" });
  });

  test("without a path the root is /tenure, without a user everyone has access", () => {
    for (const url of ["zookeeper://h1", "ZooKeeper://h1:2181/"]) {
      const settings = checkZooKeeperOptions({ url });
      expect(settings.names.leases).toBe("/tenure/leases");
      expect(settings.acl).toEqual({ scheme: "world", id: "anyone" });
    }
    const leases = (prefix: string): string =>
      checkZooKeeperOptions({ url: "zookeeper://h1", prefix }).names.leases;
    expect(leases("/")).toBe("/leases");
    expect(leases("billing")).toBe("/billing/leases");
    expect(leases("/apps/billing")).toBe("/apps/billing/leases");
  });

  test.each([
    ["no hosts", "zookeeper://", /host 1 is not a host name/],
    ["no slashes", "zookeeper:h1:2181", /two slashes.*zookeeper:\/\//],
    ["an empty host", "zookeeper://h1,,h2", /host 2 is not a host name/],
    ["an invalid port", "zookeeper://h1:99999", /host 1 is not a host name/],
    ["a user without a password", "zookeeper://me@h1", /user and password together/],
    ["an empty password", "zookeeper://me:@h1", /`password` must be text that is not empty/],
    ["a root with an empty part", "zookeeper://h1/a//b", /path like "\/tenure".*no empty part/],
    ["a root that ends in a slash", "zookeeper://h1/a/", /path like "\/tenure"/],
    ["a root with dots", "zookeeper://h1/a/../b", /path like "\/tenure"/],
    ["a root with a control character", "zookeeper://h1/a%07", /path like "\/tenure"/],
    ["the server's own nodes", "zookeeper://h1/zookeeper/x", /may not be below "\/zookeeper"/],
    ["a percent sign alone", "zookeeper://h1/a%zz", /write %25/],
    ["an unknown setting", "zookeeper://h1?ticks=5", /unknown setting.*tick-ms/],
    ["a tick that is not a number", "zookeeper://h1?tick-ms=soon", /`tickMs` must be a number/],
    ["an empty limit", "zookeeper://h1?connect-ms=", /`connectMs` must be a number/],
  ])("with %s is rejected", (_, url, message) => {
    expect(() => checkZooKeeperOptions({ url })).toThrow(message);
  });

  test("that is rejected does not have its password in the message", () => {
    const bad = [
      "zookeeper://me:hunter2@h1:x",
      "zookeeper://a@me:hunter2@h1",
      "zookeeper://me:hunter2@",
    ];
    for (const url of bad) {
      let said = "";
      try {
        checkZooKeeperOptions({ url });
      } catch (error) {
        said = String(error);
      }
      expect(said).toMatch(/InvalidArgumentError/);
      expect(said).not.toContain("hunter2");
    }
  });
});

describe("options in code", () => {
  test.each([
    [undefined, /A zookeeper: URL is expected/],
    [{}, /A zookeeper: URL is expected/],
    [{ url: 7 }, /A zookeeper: URL is expected.*a number/],
    [{ url: "h1" }, /begins with zookeeper:/],
    [{ url: "zookeeper://h1", prefix: "" }, /path like "\/tenure"/],
    [{ url: "zookeeper://h1", prefix: "a//b" }, /path like "\/tenure"/],
    [{ url: "zookeeper://h1", tickMs: 0 }, /`tickMs`/],
    [{ url: "zookeeper://h1", connectMs: Number.NaN }, /`connectMs`/],
    [{ url: "zookeeper://h1", username: "a:b", password: "c" }, /colon in its name/],
    [{ url: "zookeeper://h1", username: "a" }, /`username` and `password` together/],
    [{ url: "zookeeper://h1", tls: {}, connect: () => undefined }, /`tls` or `connect`, not both/],
  ])("%o are rejected", (options, message) => {
    expect(() => checkZooKeeperOptions(options as unknown as ZooKeeperOptions)).toThrow(message);
  });
});
