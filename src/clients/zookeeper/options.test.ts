// Goal: a URL means what it says, and every bad input is refused before anything is connected, with what to change and
// without a password in the message.
import { describe, expect, test } from "vitest";
import { settingsOf, type ZooKeeperOptions } from "./options.ts";
import { zookeeperOptionsOf } from "./url.ts";

describe("a URL", () => {
  test("names hosts, user, root and settings", () => {
    const url = "zookeeper://me%40home:s%3Acret@h1:2181,h2,[::1]:2183/apps/a%20b?tick-ms=500";
    const options = zookeeperOptionsOf(url);
    expect(options).toMatchObject({ auth: { user: "me@home", password: "s:cret" }, tickMs: 500 });
    const settings = settingsOf(options);
    expect(settings.link).toMatchObject({ auth: "me@home:s:cret", connectMs: 5_000 });
    expect(settings.link.hosts).toEqual([
      { host: "h1", port: 2181 },
      { host: "h2", port: 2181 },
      { host: "::1", port: 2183 },
    ]);
    expect(settings.names.leases).toBe("/apps/a b/leases");
    expect(settings.acl).toEqual({ scheme: "auth", id: "" });
  });

  test("without a path it means /tenure, without a user everyone", () => {
    for (const url of ["zookeeper://h1", "ZooKeeper://h1:2181/"]) {
      const settings = settingsOf(zookeeperOptionsOf(url));
      expect(settings.names.leases).toBe("/tenure/leases");
      expect(settings.acl).toEqual({ scheme: "world", id: "anyone" });
    }
    expect(settingsOf({ hosts: "h1", root: "/" }).names.leases).toBe("/leases");
  });

  test.each([
    ["no hosts", "zookeeper://", /host 1 is not a host name/],
    ["no slashes", "zookeeper:h1:2181", /two slashes.*zookeeper:\/\//],
    ["an empty host", "zookeeper://h1,,h2", /host 2 is not a host name/],
    ["a port that is none", "zookeeper://h1:99999", /host 1 is not a host name/],
    ["a user without a password", "zookeeper://me@h1", /with a user a password/],
    ["an empty password", "zookeeper://me:@h1", /password that are not empty/],
    ["a root with an empty part", "zookeeper://h1/a//b", /path like "\/tenure".*no empty part/],
    ["a root that ends in a slash", "zookeeper://h1/a/", /path like "\/tenure"/],
    ["a root with dots", "zookeeper://h1/a/../b", /path like "\/tenure"/],
    ["a root with a control character", "zookeeper://h1/a%07", /path like "\/tenure"/],
    ["the server's own nodes", "zookeeper://h1/zookeeper/x", /may not be below "\/zookeeper"/],
    ["a percent sign alone", "zookeeper://h1/a%zz", /write %25/],
    ["an unknown setting", "zookeeper://h1?ticks=5", /unknown setting; known are tick-ms and/],
    ["a tick that is no number", "zookeeper://h1?tick-ms=soon", /`tickMs` must be a number/],
    ["an empty limit", "zookeeper://h1?connect-ms=", /`connectMs` must be a number/],
  ])("with %s is refused", (_, url, message) => {
    expect(() => settingsOf(zookeeperOptionsOf(url))).toThrow(message);
  });

  test("that is refused does not have its password repeated", () => {
    const bad = [
      "zookeeper://me:hunter2@h1:x",
      "zookeeper://a@me:hunter2@h1",
      "zookeeper://me:hunter2@",
    ];
    for (const url of bad) {
      let said = "";
      try {
        settingsOf(zookeeperOptionsOf(url));
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
    [{ hosts: [] }, /`hosts` must be like/],
    [{ hosts: 7 }, /`hosts` must be like/],
    [{ hosts: "h1 h2" }, /Host 1 .*not a host name/],
    [{ hosts: ["http://h1:2181"] }, /Host 1 .*not a host name/],
    [{ hosts: "h1", root: "tenure" }, /path like "\/tenure"/],
    [{ hosts: "h1", tickMs: 0 }, /`tickMs`/],
    [{ hosts: "h1", connectMs: Number.NaN }, /`connectMs`/],
    [{ hosts: "h1", auth: { user: "a:b", password: "c" } }, /no colon in the user/],
    [{ hosts: "h1", tls: {}, connect: () => undefined }, /`tls` or `connect`, not both/],
  ])("%o are refused", (options, message) => {
    expect(() => settingsOf(options as unknown as ZooKeeperOptions)).toThrow(message);
  });
});
