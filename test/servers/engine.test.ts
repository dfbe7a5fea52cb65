// Goal: a missing engine is installed once, without questions and without starting a daemon, or the
// reason is reported. Method: a PATH made by the test, an apt-get script that records its calls,
// and a temp folder in place of the root.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { findEngine } from "./engine.ts";
import { installEngine, type Machine } from "./install.ts";

let folder: string;
let machine: Machine;
const said: string[] = [];
const say = (line: string): void => void said.push(line);

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "tenure-engine-"));
  mkdirSync(join(folder, "bin"));
  machine = { root: folder, isRoot: true, apt: join(folder, "apt-get"), allowed: true };
  said.length = 0;
  // What the scripts need, and no engine.
  for (const name of ["sh", "cat", "chmod", "sleep"]) {
    program(`bin/${name}`, `exec /bin/${name} "$@"`);
  }
  vi.stubEnv("PATH", join(folder, "bin"));
});

afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(folder, { recursive: true, force: true });
});

function program(path: string, body: string): void {
  writeFileSync(join(folder, path), `#!/bin/sh\n${body}\n`, { mode: 0o755 });
}

/**
 * An apt-get that appends each call to "calls", copies the policy that it sees to "seen", and then
 * runs `body`.
 */
function aptGet(body: string): void {
  const note = `echo "$@" >>"${folder}/calls"; cat "${folder}/usr/sbin/policy-rc.d" "${folder}/etc/postgresql-common/createcluster.d/"* >"${folder}/seen"`;
  program("apt-get", `${note}\n${body}`);
}

const calls = (): string[] => readFileSync(join(folder, "calls"), "utf8").trimEnd().split("\n");
const putRedis = (): string =>
  `printf '#!/bin/sh\\necho Redis server v=7.0.15\\n' >"${folder}/bin/redis-server"; chmod +x "${folder}/bin/redis-server"`;

test("an installed engine is found with its version, and nothing is installed", async () => {
  program("bin/redis-server", "echo Redis server v=7.2.4 sha=0");
  aptGet("exit 1");
  const expected = { name: "redis", version: "7.2.4" };
  expect(await findEngine("redis")).toMatchObject(expected);
  expect(await installEngine("redis", say, machine)).toMatchObject(expected);
  expect(existsSync(join(folder, "calls"))).toBe(false);
});

test("an engine that is not installed is not found", async () => {
  for (const name of ["redis", "etcd", "zookeeper", "openssl"] as const) {
    expect(await findEngine(name), name).toBeUndefined();
  }
});

test.each([
  ["only root may install it", { isRoot: false }],
  ["there is no apt-get here", { apt: undefined }],
  ["TENURE_TEST_INSTALL=no", { allowed: false }],
])("the reason is reported: %s", async (words, change) => {
  const install = installEngine("redis", say, { ...machine, ...change });
  await expect(install).rejects.toThrow(/^missing engine redis: /);
  await expect(install).rejects.toThrow(words);
  await expect(install).rejects.toThrow("redis-server, or set TENURE_TEST_REDIS");
});

test("an install asks no questions, takes no recommended packages and starts no daemon", async () => {
  aptGet(putRedis());
  expect(await installEngine("redis", say, machine)).toMatchObject({ version: "7.0.15" });
  expect(calls()).toHaveLength(1);
  expect(calls()[0]).toMatch(/ install -y --no-install-recommends .* redis-server$/);
  const seen = readFileSync(join(folder, "seen"), "utf8");
  expect(seen).toContain("exit 101");
  expect(seen).toContain("create_main_cluster = false");
  expect(said[0]).toBe("installing redis-server for the tests (apt-get)");
  expect(said[1]).toMatch(/^installed redis-server 7.0.15 in [\d.]+ s$/);
});

test("the policy against daemons is removed after the install, and an existing policy is kept", async () => {
  const policy = join(folder, "usr/sbin/policy-rc.d");
  aptGet("exit 100");
  await expect(installEngine("redis", say, machine)).rejects.toThrow("missing engine");
  expect(existsSync(policy)).toBe(false);
  expect(existsSync(join(folder, "etc/postgresql-common"))).toBe(false);
  expect(existsSync(join(folder, "etc"))).toBe(true);
  mkdirSync(join(folder, "usr/sbin"), { recursive: true });
  writeFileSync(policy, "#!/bin/sh\nexit 104\n");
  await expect(installEngine("redis", say, machine)).rejects.toThrow("missing engine");
  expect(readFileSync(policy, "utf8")).toBe("#!/bin/sh\nexit 104\n");
});

test("missing package lists are fetched before the install", async () => {
  aptGet(`case "$*" in *update*) ${putRedis()};; *) [ -e "${folder}/bin/redis-server" ];; esac`);
  await installEngine("redis", say, machine);
  expect(calls().map((call) => /\b(install|update)\b/.exec(call)?.[0])).toEqual([
    "install",
    "update",
    "install",
  ]);
});

test("the error of apt-get is reported as the reason", async () => {
  aptGet('echo "E: Failed to fetch redis-server  Temporary failure resolving" >&2; exit 100');
  const install = installEngine("redis", say, machine);
  await expect(install).rejects.toThrow("apt-get could not install it: E: Failed to fetch");
});

test("the install is retried while the package manager is locked", async () => {
  aptGet(
    `[ $(cat "${folder}/calls" | wc -l) -gt 1 ] || { echo "E: Could not get lock /var/lib/dpkg/lock" >&2; exit 100; }\n${putRedis()}`,
  );
  vi.stubEnv("PATH", `${join(folder, "bin")}${delimiter}${join(folder, "more")}`);
  mkdirSync(join(folder, "more"));
  program("more/wc", 'exec /usr/bin/wc "$@"');
  await installEngine("redis", say, machine);
  expect(calls()).toHaveLength(2);
});

test("two concurrent installs of the same engine install it once", async () => {
  aptGet(`sleep 0.2; ${putRedis()}`);
  const both = [installEngine("redis", say, machine), installEngine("redis", say, machine)];
  const [one, other] = await Promise.all(both);
  expect(one).toEqual(other);
  expect(calls()).toHaveLength(1);
});
