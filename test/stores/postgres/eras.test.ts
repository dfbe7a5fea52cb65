// Goal: whatever a PostgreSQL server has lost, the next token of each resource is above every
// earlier one, holders learn that their lease is gone, and waiters are served. Method: real servers
// that are restored, recreated, upgraded and promoted. The SQL version of the token rule is
// compared with core/era.ts on random inputs.
import { renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { ERA_GAP, nextToken, startOfEra } from "../../../src/core/era.ts";
import { connect, type Lease, type Tenure } from "../../../src/index.ts";
import { type Step, toRegrant } from "../../../src/stores/postgres/batch.ts";
import { postgresStore } from "../../../src/stores/postgres/index.ts";
import { CALL } from "../../../src/stores/postgres/statements.ts";
import { findPath } from "../../servers/engine.ts";
import { needEngine } from "../../servers/given.ts";
import { runTool } from "../../servers/launch.ts";
import {
  type PostgresServer,
  startPostgres,
  startPostgresPair,
  unprivilegedUser,
} from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { openFrozenServer } from "../../support/stores/postgres-frozen-clock.ts";
import { dropSchema } from "../../support/stores/postgres-harness.ts";

const server = useServer(startPostgres);
const libraries = ["pg", "postgres"] as const;
type Library = (typeof libraries)[number];

describe("the token rule in SQL", () => {
  /** The year 2200, in microseconds. */
  const micros = fc.integer({ min: 0, max: 7_258_118_400_000_000 });
  const ahead = fc.bigInt({ min: -(2n ** 28n), max: 2n ** 28n });
  const token = fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 53n }), fc.bigInt(1n, 10n ** 38n));

  test("S1: start_of_era() in SQL equals startOfEra()", async () => {
    await using frozen = await openFrozenServer(server(), "eras_start");
    const agree = async (now: number, last: bigint): Promise<void> => {
      await frozen.setClock(now);
      const rows = await frozen.ask('SELECT "{schema}".start_of_era($1)::text AS floor', [
        String(last),
      ]);
      expect(BigInt(String(rows[0]?.floor))).toBe(startOfEra(last, BigInt(Math.max(1, now))));
    };
    await fc.assert(fc.asyncProperty(micros, token, agree), { numRuns: 100 });
    // Close to the clock, where the gap matters.
    const close = (now: number, by: bigint): Promise<void> => {
      const last = BigInt(now) + by;
      return agree(now, last < 0n ? 0n : last);
    };
    await fc.assert(fc.asyncProperty(micros, ahead, close), { numRuns: 200 });
  });

  test("S1: the next token of a grant in SQL equals nextToken()", async () => {
    await using frozen = await openFrozenServer(server(), "eras_next");
    await frozen.setClock(1);
    await frozen.ask(CALL.openSession, [
      "s",
      "h",
      String(10n ** 13n),
      String(10n ** 13n),
      "",
      "5000",
    ]);
    let attempts = 0;
    const agree = async (now: number, floor: bigint, last: bigint | undefined): Promise<void> => {
      attempts += 1;
      const clock = Math.min(now, 7_000_000_000_000_000);
      await frozen.setClock(clock);
      // As after a released grant, in an era with this floor.
      await frozen.ask('TRUNCATE "{schema}".lease', []);
      await frozen.ask('UPDATE "{schema}".era SET floor = $1', [String(floor)]);
      if (last !== undefined) {
        await frozen.ask(
          `INSERT INTO "{schema}".lease (resource, token, attempt, record) VALUES ('r', $1, '', '')`,
          [String(last)],
        );
      }
      const grant = {
        kind: "grant",
        resource: "r",
        session: "s",
        attempt: `a${attempts}`,
      } as const;
      const step: Step = { ...grant, holder: "h", record: "{}", rank: 0, queue: false };
      const rows = await frozen.ask(CALL.regrant, [...(toRegrant([step]) ?? []), "5000"]);
      const next = nextToken({ last, floor, clock: BigInt(Math.max(1, clock)) });
      expect(JSON.parse(String(rows[0]?.answer))).toEqual([["granted", String(next)]]);
    };
    const last = fc.option(token, { nil: undefined });
    // An era starts at 1 or above, because the clock does. A new row has token 0.
    const floor = token.filter((each) => each > 0n);
    await fc.assert(fc.asyncProperty(micros, floor, last, agree), { numRuns: 60 });
    const close = (now: number, by: bigint, above: bigint): Promise<void> => {
      const start = BigInt(now) + 2n ** 28n + by + 1n;
      return agree(now, start, start + above < 0n ? 0n : start + above);
    };
    const around = fc.bigInt({ min: -2n, max: 2n });
    await fc.assert(fc.asyncProperty(micros, ahead, around, close), { numRuns: 60 });
  });
});

describe("changes by an administrator", () => {
  test.each(libraries)(
    "S6: the holder of a lease whose row is deleted learns it from its next renewal (%s)",
    async (library) => {
      const schema = `eras_deleted_${library}`;
      const [holder, other] = await connectTwo(server().url, library, schema);
      const [lease, kept] = [await holder.acquire("r"), await holder.acquire("kept")];
      await server().sql(`DELETE FROM ${schema}.lease WHERE resource = 'r'`);
      const next = await other.acquire("r", { waitMs: 20_000 });
      expect(next.token).toBeGreaterThan(lease.token);
      expect(await waitForLoss(lease)).toMatchObject({ code: "LEASE_LOST", reason: "revoked" });
      await kept.confirmed();
      expect(kept.check()).toBe(kept.token);
      expect(next.check()).toBe(next.token);
    },
  );

  test("S1: a grant that is the first request to another server process starts an era", async () => {
    const [holder] = await connectTwo(server().url, "pg", "eras_first");
    const before = await holder.withLease("r", ({ token }) => token);
    await server().sql("UPDATE eras_first.era SET server = 'another process'");
    const after = await holder.withLease("r", ({ token }) => token);
    expect(after - before).toBeGreaterThanOrEqual(ERA_GAP / 4n);
  });

  test("S1: lowering a token by UPDATE is rejected, raising it is not", async () => {
    const schema = "eras_lowered";
    const [holder] = await connectTwo(server().url, "pg", schema);
    const { token } = await holder.acquire("r");
    const set = (to: bigint): Promise<string> =>
      server().sql(`UPDATE ${schema}.lease SET token = ${to}`);
    await expect(set(token - 1n)).rejects.toThrow("A token never falls");
    await set(token + 1n);
    expect(await server().sql(`SELECT token FROM ${schema}.lease`)).toBe(String(token + 1n));
  });
});

/** Something that happens to the server: `lose` restores the state that it had at `save`. */
interface Mishap {
  /** The server that grants until `lose`. */
  readonly server: PostgresServer;
  readonly url: string;
  readonly library: Library;
  save(): Promise<void>;
  lose(): Promise<void>;
  /** Whether the server still knows the state of `save` afterwards. */
  readonly keeps: boolean;
}

async function connectTwo(
  url: string,
  library: Library,
  schema?: string,
): Promise<[Tenure, Tenure]> {
  // Longer than any mishap takes, so that no session expires.
  const defaults = { ttlMs: 60_000, renewEveryMs: 500 };
  const open = async (): Promise<Tenure> => {
    const tenure = await connect(postgresStore({ url, library, prefix: schema }), { defaults });
    onTestFinished(() => tenure.close({ drainMs: 0 }));
    return tenure;
  };
  return [await open(), await open()];
}

function waitForLoss({ signal }: Lease): Promise<unknown> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(signal.reason);
    signal.addEventListener("abort", () => resolve(signal.reason));
  });
}

async function expectSurvives(mishap: Mishap): Promise<void> {
  const [holder, other] = await connectTwo(mishap.url, mishap.library);
  const highest = new Map<string, bigint>();
  const cycle = async (resource: string): Promise<void> => {
    const lease = await other.acquire(resource, { waitMs: 30_000 });
    expect(lease.token).toBeGreaterThan(highest.get(resource) ?? 0n);
    highest.set(resource, lease.token);
    await lease.release();
  };
  const kept = await holder.acquire("kept");
  await cycle("cycled");
  await mishap.save();
  const missed = await holder.acquire("missed", { waitMs: 30_000 });
  for (let round = 0; round < 5; round += 1) await cycle("cycled");
  await cycle("new");
  const waiting = other.acquire("missed", { waitMs: 50_000 });
  // Wait until it is queued.
  const waiters = "SELECT count(*) FROM tenure.waiter";
  while ((await mishap.server.sql(waiters)) !== "1") await sleep(50);
  await mishap.lose();

  expect(await waitForLoss(missed)).toMatchObject({ code: "LEASE_LOST" });
  expect((await waiting).token).toBeGreaterThan(missed.token);
  if (mishap.keeps) {
    await kept.confirmed();
    expect(kept.check()).toBe(kept.token);
    expect(await kept.release()).toBe("released");
  } else {
    expect(await waitForLoss(kept)).toMatchObject({ code: "LEASE_LOST" });
  }
  highest.set("kept", kept.token);
  for (const resource of ["kept", "cycled", "new"]) await cycle(resource);
}

/** One URL with both addresses, in this order. */
function joinHosts(first: PostgresServer, second: PostgresServer): string {
  return first.url.replace(`:${first.port}`, `:${first.port},${second.host}:${second.port}`);
}

async function findPrograms(): Promise<string> {
  return dirname(findPath(await needEngine("postgres"), "server"));
}

const MISHAP_MAX_MS = 120_000;

describe.each(libraries)("data loss, through %s", (library) => {
  test(
    "S1: tokens keep increasing after a dump is restored into a new cluster",
    async () => {
      await using old = await startPostgres({ own: true });
      await using fresh = await startPostgres({ own: true });
      const dump = join(old.folder, "dump.sql");
      const tool = async (name: string, ...args: string[]): Promise<string> =>
        runTool([join(await findPrograms(), name), ...args], {
          folder: old.folder,
          user: unprivilegedUser(),
        });
      await expectSurvives({
        server: old,
        url: joinHosts(old, fresh),
        library,
        keeps: true,
        save: async () => void (await tool("pg_dump", "-n", "tenure", "-f", dump, old.url)),
        lose: async () => {
          await tool("psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", dump, fresh.url);
          await old.kill();
        },
      });
    },
    MISHAP_MAX_MS,
  );

  test(
    "S1: tokens keep increasing after the schema is dropped and created again",
    async () => {
      await using own = await startPostgres({ own: true });
      await expectSurvives({
        server: own,
        url: own.url,
        library,
        keeps: false,
        save: async () => undefined,
        lose: async () => {
          await dropSchema(own, "tenure");
          await (await connect(postgresStore({ url: own.url, library }))).close();
        },
      });
    },
    MISHAP_MAX_MS,
  );

  test(
    "S1: tokens keep increasing after an older copy of the data folder is put back",
    async () => {
      await using own = await startPostgres({ own: true });
      const [data, copy] = [join(own.folder, "data"), join(own.folder, "copy")];
      await expectSurvives({
        server: own,
        url: own.url,
        library,
        keeps: true,
        save: async () => {
          await own.stop();
          await runTool(["cp", "-a", data, copy], { folder: own.folder });
          await own.start();
        },
        lose: async () => {
          await own.kill();
          rmSync(data, { recursive: true });
          renameSync(copy, data);
          await own.start();
        },
      });
    },
    MISHAP_MAX_MS,
  );

  test(
    "S1: tokens keep increasing after a standby that has missed grants is promoted",
    async () => {
      await using pair = await startPostgresPair();
      await expectSurvives(preparePromotion(pair, library));
    },
    MISHAP_MAX_MS,
  );
});

function preparePromotion(
  pair: Awaited<ReturnType<typeof startPostgresPair>>,
  library: Library,
): Mishap {
  const place = "SELECT pg_current_wal_lsn()";
  return {
    server: pair.primary,
    url: joinHosts(pair.primary, pair.standby),
    library,
    keeps: true,
    save: async () => {
      const written = await pair.primary.sql(place);
      const caughtUp = `SELECT pg_last_wal_replay_lsn() >= '${written}'`;
      while ((await pair.standby.sql(caughtUp)) !== "t") await sleep(50);
      await pair.standby.stop();
    },
    lose: async () => {
      await pair.primary.kill();
      await pair.standby.start();
      await pair.promote();
    },
  };
}

test(
  "S1: tokens keep increasing if pg_upgrade resets the timeline and a standby of the new cluster is promoted",
  async () => {
    await using former = await startPostgresPair();
    await former.primary.kill();
    await former.promote();
    const old = former.standby;
    const timeline = "SELECT timeline_id FROM pg_control_checkpoint()";
    await old.sql("CHECKPOINT");
    expect(await old.sql(timeline)).toBe("2");
    const before = await connect(postgresStore({ url: old.url }));
    const { token } = await before.acquire("kept");
    await before.close();
    await old.stop();

    const bin = await findPrograms();
    await using pair = await startPostgresPair({
      beforeStart: async ({ folder, user }) => {
        const data = ["-d", join(old.folder, "data"), "-D", join(folder, "data")];
        const options = ["-b", bin, "-B", bin, "-U", "postgres", "-s", folder, "--no-sync"];
        await runTool([join(bin, "pg_upgrade"), ...data, ...options], { folder, user });
      },
    });
    expect(await pair.primary.sql(timeline)).toBe("1");
    expect(await pair.primary.sql("SELECT token FROM tenure.lease")).toBe(String(token));
    await expectSurvives(preparePromotion(pair, "pg"));
    const after = await connect(postgresStore({ url: pair.standby.url }));
    onTestFinished(() => after.close());
    const next = await after.acquire("kept", { waitMs: 20_000 });
    expect(next.token).toBeGreaterThan(token);
    await next.release();
  },
  MISHAP_MAX_MS,
);
