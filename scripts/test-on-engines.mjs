// Runs the store tests on other releases of the engines: `node scripts/test-on-engines.mjs
// trixie:etcd`. Each Debian suite has one release of each engine. The packages of another suite are
// unpacked into their own folder, together with the libraries they were built for; nothing is
// installed. Needs apt-get as root and the package patchelf.
import { existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { root, run } from "./run.mjs";
import { runVitest } from "./vitest-run.mjs";

/** For each engine, its Debian packages and its tests. */
const engines = {
  etcd: { packages: ["etcd-server"], tests: ["test/stores/etcd"] },
  redis: { packages: ["redis-server"], tests: ["test/stores/redis", "test/guards/redis"] },
  valkey: { packages: ["valkey-server"], tests: ["test/stores/redis", "test/guards/redis"] },
  postgres: {
    packages: ["postgresql"],
    tests: ["test/stores/postgres", "test/guards/postgres"],
  },
  zookeeper: { packages: ["zookeeper"], tests: ["test/stores/zookeeper"] },
};

const KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg";

/** Returns one summary per `suite:engine`, in order. */
async function testOnEngines(wanted) {
  const summaries = [];
  for (const each of wanted) {
    const [suite = "", name = ""] = each.split(":");
    const engine = Object.hasOwn(engines, name) ? engines[name] : undefined;
    if (!/^[a-z]+$/.test(suite) || engine === undefined) {
      throw new Error(
        `Expected SUITE:ENGINE with an engine of ${Object.keys(engines).join(", ")}, got "${each}"`,
      );
    }
    const folder = await unpack(suite, name, engine.packages);
    console.log(`\n${name} of Debian ${suite}`);
    const env = {
      TENURE_TEST_ROOT: folder,
      PATH: `${join(folder, "programs")}:${process.env.PATH}`,
    };
    const summary = await runVitest(["--project", "stores", ...engine.tests], { env });
    const { passed, failed, skipped } = summary;
    console.log(`${each}: ${passed} passed, ${failed} failed, ${skipped.length} skipped`);
    if (passed === 0) summary.failed = Math.max(1, failed);
    summaries.push(summary);
  }
  return summaries;
}

/**
 * Unpacks the engine of a suite on first use. The subfolder `programs` is to be put before PATH.
 */
async function unpack(suite, name, packages) {
  const folder = join(root, "node_modules", ".cache", "engines", `${suite}-${name}`);
  if (existsSync(join(folder, "ready"))) return folder;
  console.log(`\nfetching ${packages.join(", ")} of Debian ${suite}`);
  rmSync(folder, { recursive: true, force: true });
  const archives = join(folder, "cache", "archives");
  for (const each of ["lists/partial", "cache/archives/partial", "programs"]) {
    mkdirSync(join(folder, each), { recursive: true });
  }
  writeFileSync(join(folder, "status"), "");
  writeFileSync(join(folder, "sources.list"), await readSourceLine(suite));
  const apt = (args) =>
    must("apt-get", [...aptOptions(folder), "-y", "-o", "APT::Sandbox::User=root", ...args]);
  await apt(["update"]);
  // With an empty status file, apt-get also downloads every dependency, including the C library.
  await apt(["install", "--download-only", "--no-install-recommends", ...packages]);
  for (const archive of readdirSync(archives).filter((file) => file.endsWith(".deb"))) {
    await must("dpkg-deb", ["-x", join(archives, archive), folder]);
  }
  await patchPrograms(folder);
  rmSync(join(folder, "cache"), { recursive: true });
  writeFileSync(join(folder, "ready"), "");
  return folder;
}

function aptOptions(folder) {
  const settings = {
    "Dir::Etc::sourcelist": join(folder, "sources.list"),
    "Dir::Etc::sourceparts": "-",
    "Dir::State::lists": join(folder, "lists"),
    "Dir::State::status": join(folder, "status"),
    "Dir::Cache": join(folder, "cache"),
  };
  return Object.entries(settings).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
}

/** The source line for another suite, on the Debian mirror that this machine uses. */
async function readSourceLine(suite) {
  const format = "$(ORIGIN)|$(LABEL)|$(REPO_URI)";
  const { output } = await must("apt-get", ["indextargets", "--format", format]);
  const debian = output.split("\n").find((line) => line.startsWith("Debian|Debian|"));
  if (debian === undefined)
    throw new Error("apt-get has no Debian archive. Run apt-get update first.");
  return `deb [signed-by=${KEYS}] ${debian.split("|")[2]} ${suite} main\n`;
}

/** Makes the programs load the unpacked libraries, and links them into `programs`. */
async function patchPrograms(folder) {
  const libraries = join(folder, "usr", "lib", "x86_64-linux-gnu");
  const loader = [libraries, join(folder, "lib", "x86_64-linux-gnu")]
    .map((where) => join(where, "ld-linux-x86-64.so.2"))
    .find((file) => existsSync(file));
  if (loader === undefined) throw new Error("The unpacked C library has no loader.");
  const rpath = `${libraries}:${join(folder, "lib", "x86_64-linux-gnu")}`;
  const homes = join(folder, "usr", "lib", "postgresql");
  const postgres = existsSync(homes)
    ? readdirSync(homes).map((major) => join(homes, major, "bin"))
    : [];
  for (const where of [join(folder, "usr", "bin"), ...postgres]) {
    for (const program of readdirSync(where).filter((file) => isEngineProgram(file, where))) {
      const file = join(where, program);
      await must("patchelf", [
        "--force-rpath",
        "--set-rpath",
        rpath,
        "--set-interpreter",
        loader,
        file,
      ]);
      if (where.endsWith("usr/bin"))
        symlinkSync(file, join(folder, "programs", toLinkName(program)));
    }
  }
}

function isEngineProgram(file, where) {
  return where.includes("postgresql") || /^(etcd|redis-server|valkey-server)$/.test(file);
}

/** The tests look for redis-server first. */
function toLinkName(program) {
  return program === "valkey-server" ? "redis-server" : program;
}

async function must(command, args) {
  const result = await run(command, args, { capture: true });
  if (result.code === 0) return result;
  throw new Error(
    `${command} failed: ${result.error?.message ?? result.output.trim().slice(-500)}`,
  );
}

const wanted = process.argv.slice(2);
if (wanted.length === 0) throw new Error("Expected SUITE:ENGINE, for example: trixie:etcd");
const summaries = await testOnEngines(wanted);
process.exitCode = summaries.every((summary) => summary.failed === 0) ? 0 : 1;
