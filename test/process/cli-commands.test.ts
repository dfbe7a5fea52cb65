// Goal: every command besides `run` and `guard` prints correct results, as text and as JSON, and
// exits with its documented code. Method: the built program on a SQLite file; once-per also on
// Redis and ZooKeeper.
import { execFileSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import { type Cli, type CliWorld, cliWorlds, SHORT } from "../support/process/cli.ts";

const world = cliWorlds();
const redis = useServer(startRedis);
const zookeeper = useServer(startZooKeeper);

async function holder(here: CliWorld, resource: string, env: NodeJS.ProcessEnv = {}): Promise<Cli> {
  const cli = here.start(["run", resource, "--", "sh", "-c", "echo ready; exec sleep 60"], env);
  await cli.said("ready");
  return cli;
}

const parseLines = (text: string): Record<string, unknown>[] =>
  text
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));

describe("ls and show", () => {
  test("print the holders as a table and as JSON, without colours in a pipe", async () => {
    const here = world();
    expect((await here.run(["ls"])).out).toBe("No leases are held.\n");
    const job = await holder(here, "a/job");
    await holder(here, "b/job");
    const table = await here.run(["ls", "a/"]);
    expect(table.out.split("\n")[0]).toMatch(
      /^RESOURCE +HOLDER +TOKEN +HELD FOR +EXPIRES IN +VALUE$/,
    );
    expect(table.out).toContain(`/${job.child.pid} `);
    expect(table.out).toMatch(/ \d{16} +\d+s +\d+\.\d s/);
    for (const line of table.out.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(table.out).not.toContain("b/job");
    expect(table.out).not.toContain("\u001B");
    const listed = (await here.run(["ls", "--json"])).json();
    expect(listed).toMatchObject([
      {
        resource: "a/job",
        held: true,
        token: expect.stringMatching(/^\d+$/),
        heldForMs: expect.any(Number),
      },
      { resource: "b/job", held: true },
    ]);
    const shown = await here.run(["show", "a/job", "--json"]);
    expect(shown.exit.code).toBe(EXIT.ok);
    expect(shown.json()).toMatchObject({ held: true, evidence: { consistency: "linearizable" } });
    expect(shown.json()).toMatchObject({ heldForMs: expect.any(Number) });
    const lines = (await here.run(["show", "a/job"])).out.split("\n");
    const since = lines.find((line) => line.startsWith("held since"));
    expect(since).toMatch(/^held since {2}\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(\d+s\)$/);
    const free = await here.run(["show", "c"]);
    expect([free.exit.code, free.out]).toEqual([EXIT.no, "c is free.\n"]);
  });
});

describe("revoke", () => {
  test("needs --yes without a terminal, names the former holder, and exits with 1 if the resource is free", async () => {
    const here = world();
    const job = await holder(here, "job");
    const asked = await here.run(["revoke", "job"]);
    expect(asked.exit.code).toBe(EXIT.usage);
    expect(asked.err).toContain("Pass --yes");
    expect((await here.run(["show", "job"])).exit.code).toBe(EXIT.ok);
    const revoked = await here.run(["revoke", "job", "--yes"]);
    expect(revoked.exit.code).toBe(EXIT.ok);
    expect(revoked.out).toMatch(/^Revoked job: .* held it with token \d+\.$/m);
    expect(await job.ended).toEqual({ code: EXIT.lost, signal: null });
    const free = await here.run(["revoke", "job", "-y", "--json"]);
    expect(free.exit.code).toBe(EXIT.no);
    expect(free.json()).toEqual({ resource: "job", revoked: false });
  });
});

describe("watch", () => {
  test("in a pipe, prints a line of JSON per held lease and per change, until a signal ends it", async () => {
    const here = world();
    const job = await holder(here, "a/job");
    const watch = here.start(["watch", "a/"]);
    await watch.said('"resource":"a/job","held":true');
    job.signal("SIGTERM");
    await watch.said('"resource":"a/job","held":false');
    watch.signal("SIGINT");
    expect(await watch.ended).toEqual({ code: 130, signal: null });
    expect(parseLines(watch.out).length).toBeGreaterThanOrEqual(2);
  });

  test("ends silently when the reader of its output exits", async () => {
    const here = world();
    await holder(here, "job");
    const watch = here.start(["watch"]);
    await watch.said("job");
    watch.child.stdout?.destroy();
    await holder(here, "other");
    expect((await watch.ended).code).toBe(EXIT.ok);
    expect(watch.err).toBe("");
  });
});

describe("elect", () => {
  test("prints every leader with term and value; the next candidate leads when the first is stopped", async () => {
    const here = world();
    const first = here.start(["elect", "boss", ...SHORT, "--value", '{"at":1}', "--json"]);
    const [, term = ""] =
      /"term":"(\d+)","holderId"/.exec(await first.said(/"term":"\d+","holderId"/)) ?? [];
    const second = here.start(["elect", "boss", ...SHORT, "--value", "10.0.0.7:9000"]);
    await second.said(`in term ${term}: {"at":1}`);
    first.signal("SIGTERM");
    expect(await first.ended).toEqual({ code: 143, signal: null });
    const next = /in term (\d+): "10\.0\.0\.7:9000"/;
    const [, nextTerm = ""] = next.exec(await second.said(next)) ?? [];
    expect(BigInt(nextTerm)).toBeGreaterThan(BigInt(term));
    second.signal("SIGINT");
    expect(await second.ended).toEqual({ code: 130, signal: null });
  });

  test("with a command: runs it while leading, kills it on loss, leads again, and exits with its code", async () => {
    const here = world();
    const script = `trap 'echo ending; exit 9' USR1; trap '' TERM; echo "term $TENURE_TOKEN"; while :; do sleep 0.02; done`;
    const cli = here.start(["elect", "boss", ...SHORT, "--", "sh", "-c", script]);
    await cli.said(/^term \d+\n/);
    expect((await here.run(["revoke", "boss", "--yes"])).exit.code).toBe(EXIT.ok);
    const [, first = "", second = ""] =
      /^term (\d+)\nterm (\d+)\n/.exec(await cli.said(/^term \d+\nterm \d+\n/)) ?? [];
    expect(BigInt(second)).toBeGreaterThan(BigInt(first));
    expect(cli.err).toContain("lost leadership: revoked");
    cli.signal("SIGUSR1");
    expect(await cli.ended).toEqual({ code: 9, signal: null });
    expect((await here.run(["show", "boss"])).exit.code).toBe(EXIT.no);
    await expect.poll(() => here.alive(), { timeout: 5_000 }).toEqual([]);
  });

  test("--rank: the lowest rank leads next although it joined later; an invalid rank is rejected", async () => {
    const here = world();
    const leader = here.start(["elect", "boss", ...SHORT]);
    await leader.said(/in term \d+/);
    const reserve = here.start(["elect", "boss", ...SHORT, "--rank", "3", "--value", "reserve"]);
    await reserve.said(/in term \d+/);
    const first = here.start(["elect", "boss", ...SHORT, "--rank", "0", "--value", "first"]);
    await first.said(/in term \d+/);
    await untilQueued(here, 2);
    leader.signal("SIGTERM");
    await reserve.said(/in term \d+: "first"/);
    first.signal("SIGTERM");
    await reserve.said(/in term \d+: "reserve"/);
    for (const rank of ["21", "-1", "high", ""]) {
      const refused = await here.run(["elect", "boss", `--rank=${rank}`]);
      expect(refused.exit.code).toBe(EXIT.usage);
      expect(refused.err).toMatch(/--rank (must be|needs) a/);
    }
  });
});

/** Waits until the queues of the store file contain this many attempts. */
async function untilQueued({ folder }: CliWorld, count: number): Promise<void> {
  const database = (await loadDriver()).open(join(folder, "tenure.db"));
  onTestFinished(() => database.close());
  const counting = database.prepare("SELECT count(*) AS count FROM waiter");
  await expect.poll(() => Number(counting.get()?.count), { timeout: 20_000 }).toBe(count);
}

describe("plan", () => {
  test("prints durations, inequalities, gaps and load; impossible durations exit with 78 and the nearest valid ones", async () => {
    const here = world();
    const plan = await here.run(["plan", "--ttl", "9s", "--processes", "50", "--leases", "200"]);
    expect(plan.exit.code).toBe(EXIT.ok);
    for (const text of ["renew-every", "availability", "after a crash", "planned handover"])
      expect(plan.out).toContain(text);
    // 50 processes with one renewal each every 3 s, however many leases they have.
    expect(plan.out).toContain("1000 renewals per minute (16.7 per second)");
    const json = await here.run(["plan", "--ttl", "9s", "--json"]);
    expect(json.json()).toMatchObject({ timing: { ttlMs: 9_000 }, crashGapMs: 9_900 });
    const bad = await here.run(["plan", "--ttl", "9s", "--renew-every", "5s", "--json"]);
    expect(bad.exit.code).toBe(EXIT.timing);
    expect(JSON.parse(bad.err)).toMatchObject({
      error: { code: "TIMING", rule: "availability", fix: { renewEveryMs: 3_555 } },
    });
    const corrected = await here.run(["plan", "--ttl", "9s", "--renew-every", "3555ms"]);
    expect(corrected.exit.code).toBe(EXIT.ok);
  });

  test("fits into 100 columns", async () => {
    const load = ["--processes", "500000", "--leases", "2000000"];
    const plan = await world().run(["plan", "--ttl", "123456ms", ...load]);
    expect(tooLong(plan.out)).toEqual([]);
  });
});

const tooLong = (text: string): string[] => text.split("\n").filter((line) => line.length > 100);

describe("doctor", () => {
  test("measures for the given time and recommends valid durations", async () => {
    const here = world();
    const doctor = await here.run(["doctor", "--for", "1s", "--json", "--ttl", "1h"]);
    expect(doctor.exit.code, doctor.out).toBe(EXIT.ok);
    const found = doctor.json() as {
      renewMs: { count: number; p50: number; max: number };
      recommended: { ttlMs: number; roundTripMs: number };
    };
    expect(found.renewMs.count).toBeGreaterThan(3);
    expect(found.renewMs.p50).toBeLessThanOrEqual(found.renewMs.max);
    expect(found.recommended.ttlMs).toBe(3_600_000);
    expect((await here.run(["ls"])).out).toBe("No leases are held.\n");
    const short = await here.run(["doctor", "--for", "300ms", "--ttl", "200ms"]);
    expect(short.exit.code).toBe(EXIT.no);
    expect(short.out).toContain("A ttl of 200ms is too short");
    expect(tooLong(short.out)).toEqual([]);
  });
});

describe("the program itself", () => {
  test("-V and --version print the version, and the help names them", async () => {
    const here = world();
    const [short, long, help] = await Promise.all(
      ["-V", "--version", "--help"].map((flag) => here.run([flag])),
    );
    expect(short?.out).toMatch(/^\d+\.\d+\.\d+\n$/);
    expect([long?.out, short?.exit.code, long?.exit.code]).toEqual([short?.out, 0, 0]);
    expect(help?.out).toContain("-V");
  });

  test("a usage error refers to the help of its command, once", async () => {
    const here = world();
    const [missing, option, command] = await Promise.all([
      here.run(["run"]),
      here.run(["run", "x", "--tll", "1s", "--", "true"]),
      here.run(["rnu"]),
    ]);
    expect(missing.err).toBe("tenure: `tenure run` needs RESOURCE. See tenure run --help.\n");
    expect(option.err).toMatch(/Did you mean --ttl\?.*\nSee tenure run --help\.\n$/);
    expect(command.err).toMatch(/Did you mean run\?.*\nSee tenure --help\.\n$/);
  });
});

describe("the store", () => {
  test("run and elect warn once about memory:, which excludes no other process", async () => {
    const here = world();
    for (const command of ["run", "elect"]) {
      const cli = here.start([command, "job", "--store", "memory:", "--", "echo", "ran"]);
      await cli.said("ran");
      cli.child.kill("SIGTERM");
      await cli.ended;
      expect(cli.err.match(/TenureWarning/g)).toHaveLength(1);
      expect(cli.err).toMatch(/exists only in this process.*--store sqlite:/);
    }
    const silent = await here.run(["run", "job", "--", "true"]);
    expect(silent.err).toBe("");
  });

  test("the default is a file in a state folder that only this user can open", async () => {
    const here = world();
    const env = { TENURE_STORE: "" };
    expect((await here.run(["run", "job", "--", "true"], env)).exit.code).toBe(0);
    const folder = join(here.folder, "tenure");
    expect(existsSync(join(folder, "tenure.db"))).toBe(true);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
  });

  test("--store overrides TENURE_STORE; an unusable store exits with 69, an invalid URL with 2", async () => {
    const here = world();
    const file = join(here.folder, "other.db");
    await here.run(["run", "job", "--store", `sqlite:${file}`, "--", "true"]);
    expect(existsSync(file)).toBe(true);
    const [away, folder, bad, quoted] = await Promise.all([
      here.run(["ls", "--store", "redis://user:hunter2@127.0.0.1:1/0"]),
      here.run(["ls", "--store", `sqlite:${here.folder}`]),
      here.run(["ls", "--store", "mysql://localhost"]),
      here.run(["ls", "--store", '"redis://user:hunter2@127.0.0.1:1/0"']),
    ]);
    const codes = [away, folder, bad, quoted].map(({ exit }) => exit.code);
    expect(codes).toEqual([EXIT.unavailable, EXIT.unavailable, EXIT.usage, EXIT.usage]);
    expect(away.err + folder.err + bad.err + quoted.err).not.toContain("hunter2");
    expect(bad.err).toContain("no store for this scheme");
    expect(quoted.err).toContain("quotation mark");
  });

  test("run, show, --once-per and revoke work on Redis", async () => {
    const here = world();
    const env = { TENURE_STORE: `${redis().url}?prefix=cli-${process.pid}` };
    const job = await holder(here, "job", env);
    expect((await here.run(["show", "job"], env)).exit.code).toBe(EXIT.ok);
    expect((await here.run(["revoke", "job", "--yes"], env)).exit.code).toBe(EXIT.ok);
    expect((await job.ended).code).toBe(EXIT.lost);
    const cron = ["run", "cron", "--once-per", "1h", "--", "echo", "ran"];
    expect((await here.run(cron, env)).out).toBe("ran\n");
    expect((await here.run(cron, env)).out).toBe("");
  });

  test("--once-per works on ZooKeeper up to the longest session, and a longer window is rejected", async () => {
    const here = world();
    const env = { TENURE_STORE: zookeeper().url };
    const cron = (window: string): string[] => [
      "run",
      `cron-${process.pid}-${window}`,
      "--once-per",
      window,
      "--",
      "echo",
      "ran",
    ];
    const fired = await Promise.all([1, 2, 3].map(() => here.run(cron("40s"), env)));
    expect(fired.map(({ exit }) => exit.code)).toEqual([0, 0, 0]);
    expect(fired.map(({ out }) => out).join("")).toBe("ran\n");
    expect((await here.run(cron("40s"), env)).out).toBe("");
    const long = await here.run(cron("24h"), env);
    expect([long.exit.code, long.out]).toEqual([EXIT.unavailable, ""]);
    expect(long.err).toContain("Use a shorter time, or another store");
  });
});

describe("help and completion", () => {
  test("--help, COMMAND --help and no arguments print help; an unknown command is rejected", async () => {
    const here = world();
    const [overall, run, none, unknown] = await Promise.all([
      here.run(["--help"]),
      here.run(["run", "--help"]),
      here.run([]),
      here.run(["lss"]),
    ]);
    expect(overall.out).toContain("Commands:");
    expect(none.out).toBe(overall.out);
    expect(run.out).toContain("Usage: tenure run RESOURCE [options] -- COMMAND");
    expect([overall, run, none].map(({ exit }) => exit.code)).toEqual([0, 0, 0]);
    expect(unknown.exit.code).toBe(EXIT.usage);
    expect(unknown.err).toContain("Did you mean ls?");
  });

  test("the bash script completes commands and options", async () => {
    const here = world();
    const { out } = await here.run(["completion", "bash"]);
    const complete = (words: string): string[] => {
      const script = `${out}\nCOMP_WORDS=(${words}); COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); _tenure; echo "\${COMPREPLY[@]}"`;
      return execFileSync("bash", ["-c", script], { encoding: "utf8" }).trim().split(" ");
    };
    expect(complete("tenure re")).toEqual(["revoke"]);
    expect(complete("tenure run --kill")).toEqual(["--kill-after"]);
    expect(complete("tenure completion f")).toEqual(["fish"]);
  });
});
