// Goal: grants and releases that share a statement are each decided by their own row, as if sent
// alone. Method: many concurrent requests through real clients, and direct calls of the two SQL
// functions with rows that they must not take.
import pg from "pg";
import { describe, expect, test } from "vitest";
import type { StoreUnavailableError } from "../../../src/core/errors.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, GrantRequest, Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { countingPool } from "../../support/stores/counting-pool.ts";
import { waitUntilFree } from "../../support/stores/until-free.ts";

const server = useServer(startPostgres);
const LIMIT_MS = 10_000;
/** Far above what the clock gives: in an era that starts here, every first token is this one. */
const AHEAD = 10n ** 18n;
let schemas = 0;

interface World {
  readonly store: Store;
  readonly schema: string;
}

async function withStore(
  how: (schema: string) => PostgresOptions,
  work: (world: World) => Promise<void>,
): Promise<void> {
  schemas += 1;
  const schema = `batches_${schemas}_${process.pid}`;
  const store = await postgresStore({ ...how(schema), prefix: schema })(systemParts());
  try {
    await work({ store, schema });
  } finally {
    await store.close();
  }
}

const byUrl = (): PostgresOptions => ({ url: server().url });

async function session(store: Store, sessionId: string, ttlMs = 60_000): Promise<void> {
  await store.openSession({ sessionId, holderId: `of ${sessionId}`, ttlMs, limitMs: LIMIT_MS });
}

function wish(sessionId: string, resource: string, attempt: string, queue = false): GrantRequest {
  return { sessionId, holderId: `of ${sessionId}`, resource, attempt, queue, limitMs: LIMIT_MS };
}

/** The first grant is sent alone, the others share a statement. */
async function grantTogether(
  store: Store,
  wishes: readonly GrantRequest[],
): Promise<GrantOutcome[]> {
  const [first, ...rest] = [wish("s", "first", `first ${Math.random()}`), ...wishes];
  const [, ...outcomes] = await Promise.all([first, ...rest].map((each) => store.grant(each)));
  return outcomes;
}

function requireToken(outcome: GrantOutcome | undefined): bigint {
  if (outcome?.kind !== "granted") throw new Error(`Expected a grant, got ${outcome?.kind}.`);
  return outcome.token;
}

/**
 * Call after a first request, which has recorded the server process, so that the era continues from
 * this floor.
 */
async function startEraAt(schema: string, floor: bigint): Promise<void> {
  await server().sql(`UPDATE ${schema}.era SET floor = ${floor} WHERE server <> ''`);
}

async function withConsole<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ connectionString: server().url });
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}

test("S1: forty concurrent grants take four statements, and so do their releases, and tokens increase", async () => {
  const pool = new pg.Pool({ connectionString: server().url, max: 4 });
  const counting = countingPool(pool);
  const names = Array.from({ length: 40 }, (_, index) => `r "${index}" \\ {ü}, 'x'`);
  await withStore(
    () => ({ client: counting }),
    async ({ store }) => {
      await session(store, "s");
      let earlier: readonly bigint[] | undefined;
      for (let round = 1; round <= 3; round += 1) {
        const before = counting.statements;
        const grants = names.map((name) => store.grant(wish("s", name, `${name} ${round}`)));
        const tokens = (await Promise.all(grants)).map(requireToken);
        if (earlier !== undefined) expect(tokens).toEqual(earlier.map((token) => token + 1n));
        earlier = tokens;
        expect(counting.statements - before).toBe(4);
        const held = tokens.map((token, index) => ({ resource: names[index] ?? "", token }));
        const releases = held.map((ref) =>
          store.release({ ...ref, sessionId: "s", limitMs: LIMIT_MS }),
        );
        expect(new Set((await Promise.all(releases)).map(({ kind }) => kind))).toEqual(
          new Set(["released"]),
        );
        expect(counting.statements - before).toBe(8);
      }
    },
  );
  await pool.end();
});

test("the requests of a batch are answered separately: granted, busy, gone, and the same token for a repeated attempt", async () => {
  await withStore(byUrl, async ({ store, schema }) => {
    await session(store, "s");
    await session(store, "other");
    await startEraAt(schema, AHEAD);
    const held = requireToken(await store.grant(wish("other", "held", "o1")));
    const mine = requireToken(await store.grant(wish("s", "mine", "m1")));
    const [free, busy, again, dead, ...twins] = await grantTogether(store, [
      wish("s", "free", "a1"),
      wish("s", "held", "a2"),
      wish("s", "mine", "m1"),
      wish("absent", "free too", "a3"),
      wish("s", "twin", "t1"),
      wish("other", "twin", "t2"),
    ]);
    expect(free).toEqual({ kind: "granted", token: AHEAD });
    expect(busy).toEqual({ kind: "busy", holderId: "of other" });
    expect(again).toEqual({ kind: "granted", token: mine });
    expect(dead).toEqual({ kind: "gone" });
    expect(twins.map(({ kind }) => kind).sort()).toEqual(["busy", "granted"]);
    expect(held).toBe(AHEAD);
  });
});

test("S5: concurrent releases with another session, an older token or an unknown resource change nothing", async () => {
  await withStore(byUrl, async ({ store }) => {
    await session(store, "s");
    await session(store, "other");
    const old = requireToken(await store.grant(wish("s", "r", "a1")));
    await store.release({ resource: "r", sessionId: "s", token: old, limitMs: LIMIT_MS });
    const token = requireToken(await store.grant(wish("s", "r", "a2")));
    const first = requireToken(await store.grant(wish("s", "first", "f")));
    const refs = [
      { resource: "first", sessionId: "s", token: first },
      { resource: "r", sessionId: "other", token },
      { resource: "r", sessionId: "s", token: old },
      { resource: "unknown", sessionId: "s", token },
    ];
    const outcomes = refs.map((ref) => store.release({ ...ref, limitMs: LIMIT_MS }));
    expect((await Promise.all(outcomes)).map(({ kind }) => kind)).toEqual([
      "released",
      "notHeld",
      "notHeld",
      "notHeld",
    ]);
    const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    const seen = await store.read(read);
    expect(seen.holder?.token).toBe(token);
  });
});

describe("the SQL functions", () => {
  const cases: readonly (readonly [string, string])[] = [
    ["a held lease", "session = 'other'"],
    ["a lease with waiters", "queued = true"],
    ["a lease that this attempt held before", "attempt = 'a'"],
  ];
  test.each(cases)("a batch does not grant %s", async (_, state) => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await session(store, "other");
      const acquire = `SELECT ${schema}.acquire_free('{r,free}', '{s,s}', '{a,b}', '{x,x}', 1000)`;
      await startEraAt(schema, AHEAD);
      await server().sql(`
        INSERT INTO ${schema}.lease (resource, token, attempt, record, freed) VALUES ('r', ${AHEAD + 7n}, '', '', now());
        UPDATE ${schema}.lease SET ${state} WHERE resource = 'r'`);
      expect(await server().sql(acquire)).toBe(`- ${AHEAD}`);
      const token = await server().sql(`SELECT token FROM ${schema}.lease WHERE resource = 'r'`);
      expect(token).toBe(String(AHEAD + 7n));
    });
  });

  test.each([
    ["expired", "expires = clock_timestamp() - interval '1 ms'"],
    ["ended", "ended = clock_timestamp()"],
  ])(
    "S4: a batch grants nothing to a session that has %s, and releases nothing of it",
    async (_, state) => {
      await withStore(byUrl, async ({ store, schema }) => {
        await session(store, "s");
        const token = requireToken(await store.grant(wish("s", "mine", "m")));
        await store.release({ resource: "mine", sessionId: "s", token, limitMs: LIMIT_MS });
        const now = requireToken(await store.grant(wish("s", "held", "h")));
        await server().sql(`UPDATE ${schema}.session SET ${state} WHERE id = 's'`);
        const acquire = `SELECT ${schema}.acquire_free('{mine,new}', '{s,s}', '{a,b}', '{x,x}', 1000)`;
        expect(await server().sql(acquire)).toBe("- -");
        const rows = `SELECT count(*) FROM ${schema}.lease WHERE resource = 'new'`;
        expect(await server().sql(rows)).toBe("0");
        const release = `SELECT ${schema}.release_held('{held}', '{s}', '{${now}}', 1000)`;
        expect(await server().sql(release)).toBe("-");
      });
    },
  );

  test("S5: a batch releases by session and token only", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await session(store, "other");
      const token = requireToken(await store.grant(wish("s", "r", "a")));
      const release = (sessionId: string, which: bigint): Promise<string> =>
        server().sql(`SELECT ${schema}.release_held('{r}', '{${sessionId}}', '{${which}}', 1000)`);
      expect(await release("other", token)).toBe("-");
      expect(await release("s", token + 1n)).toBe("-");
      expect(await release("s", token)).toBe("released");
      expect(await release("s", token)).toBe("-");
    });
  });

  const calls = (schema: string): readonly string[] => [
    `SELECT ${schema}.acquire_free('{r,q}', '{s,s}', '{a,b}', '{x,x}', 1000)`,
    `SELECT ${schema}.release_held('{r,q}', '{s,s}', '{${AHEAD},${AHEAD}}', 1000)`,
  ];

  test("S1: a batch waits for the disk even if synchronous_commit is off", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await startEraAt(schema, AHEAD);
      await withConsole(async (client) => {
        await client.query("SET synchronous_commit = off");
        for (const call of calls(schema)) {
          await client.query("BEGIN");
          await client.query(call);
          const { rows } = await client.query("SHOW synchronous_commit");
          expect(rows).toEqual([{ synchronous_commit: "on" }]);
          await client.query("COMMIT");
        }
      });
    });
  });

  test("a batch notifies watchers of each change, waiters of a release, and sends nothing if there are neither", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await startEraAt(schema, AHEAD);
      await withConsole(async (client) => {
        const payloads: (string | undefined)[] = [];
        client.on("notification", ({ payload }) => payloads.push(payload));
        await client.query(`LISTEN "tenure_${schema}"`);
        const [acquire = "", release = ""] = calls(schema);
        // A notification of the client's own transaction arrives before the reply to it.
        await client.query(acquire);
        await client.query(`UPDATE ${schema}.lease SET queued = true WHERE resource = 'q'`);
        expect(payloads).toEqual([]);
        await client.query(release);
        expect(payloads.splice(0)).toEqual(["rq"]);
        await client.query(`UPDATE ${schema}.lease SET queued = false, attempt = ''`);
        await client.query(`INSERT INTO ${schema}.watcher VALUES ('w', 'infinity')`);
        await client.query(acquire);
        expect(payloads.splice(0).sort()).toEqual(["rq", "rr"]);
        await client.query(release.replaceAll(String(AHEAD), String(AHEAD + 1n)));
        expect(payloads.splice(0).sort()).toEqual(["rq", "rr"]);
      });
    });
  });

  test("S1: the batch that recreates a deleted row continues above its token", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      const acquire = `SELECT ${schema}.acquire_free('{r,q}', '{s,s}', '{a,b}', '{x,x}', 1000)`;
      const last = AHEAD + 41n;
      await startEraAt(schema, AHEAD);
      await server().sql(`
        INSERT INTO ${schema}.lease (resource, token, attempt, record, freed) VALUES ('r', ${last}, '', '', now());
        DELETE FROM ${schema}.lease WHERE resource = 'r'`);
      expect(await server().sql(acquire)).toBe(`${last + 1n} ${last + 1n}`);
    });
  });
});

test("a row that stays locked delays its own request and no others", async () => {
  await withStore(byUrl, async ({ store, schema }) => {
    await session(store, "s");
    await startEraAt(schema, AHEAD);
    const held = [];
    for (const name of ["locked", "free", "third"]) {
      const token = requireToken(await store.grant(wish("s", name, `${name} 0`)));
      held.push({ resource: name, sessionId: "s", token, limitMs: LIMIT_MS });
    }
    for (const ref of held) await store.release(ref);
    await withConsole(async (client) => {
      await client.query("BEGIN");
      await client.query(`SELECT FROM ${schema}.lease WHERE resource = 'locked' FOR UPDATE`);
      let isAnswered = false;
      const waiting = Promise.all(
        ["third", "locked", "free"].map((name) => store.grant(wish("s", name, `${name} 1`))),
      );
      const locked = waiting.then((outcomes) => {
        isAnswered = true;
        return outcomes;
      });
      const isHeld = async (): Promise<boolean> => {
        const query = `SELECT 1 FROM ${schema}.lease WHERE resource = 'free' AND session = 's'`;
        return (await client.query(query)).rowCount === 1;
      };
      while (!(await isHeld()));
      expect(isAnswered).toBe(false);
      await client.query("COMMIT");
      expect((await locked).map(requireToken)).toEqual([AHEAD + 1n, AHEAD + 1n, AHEAD + 1n]);
    });
  });
});

test("L2: waiters are notified of releases in a batch, and watchers of its grants", async () => {
  await withStore(byUrl, async ({ store, schema }) => {
    await session(store, "s");
    await startEraAt(schema, AHEAD);
    const other = await postgresStore({ url: server().url, prefix: schema })(systemParts());
    const stop = new AbortController();
    const seen: string[] = [];
    let caughtUp: () => void = () => undefined;
    const ready = new Promise<void>((resolve) => {
      caughtUp = resolve;
    });
    const onSeen: (() => void)[] = [];
    const watching = (async () => {
      const request = { prefix: "", signal: stop.signal, onCaughtUp: () => caughtUp() };
      for await (const view of other.watch(request)) {
        seen.push(`${view.resource} ${view.holder?.token ?? "free"}`);
        for (const resolve of onSeen.splice(0)) resolve();
      }
    })();
    await ready;
    const outcomes = await grantTogether(store, [wish("s", "a", "a1"), wish("s", "b", "b1")]);
    while (!seen.includes(`a ${AHEAD}`) || !seen.includes(`b ${AHEAD}`))
      await new Promise<void>((resolve) => onSeen.push(resolve));
    await session(other, "waiter");
    const wanted = wish("waiter", "b", "w1", true);
    expect((await other.grant(wanted)).kind).toBe("busy");
    const free = waitUntilFree(other, { ...wanted, signal: stop.signal });
    const refs = ["first", "a", "b"].map((resource) => ({
      resource,
      sessionId: "s",
      token: AHEAD,
    }));
    const freed = refs.map((ref) => store.release({ ...ref, limitMs: LIMIT_MS }));
    const kinds = (await Promise.all(freed)).map(({ kind }) => kind);
    expect(kinds).toEqual(["released", "released", "released"]);
    await free;
    expect((await other.grant(wanted)).kind).toBe("granted");
    expect(outcomes.map(requireToken)).toEqual([AHEAD, AHEAD]);
    stop.abort();
    await watching;
    await other.close();
  });
});

test.each(["pg", "postgres"] as const)(
  "S4: a batch whose reply is lost has an unknown outcome for each request, and repeating the attempts finds the grants, through %s",
  async (library) => {
    await using proxy = await startProxy(server());
    await withStore(
      () => ({ url: proxy.url, library }),
      async ({ store, schema }) => {
        await session(store, "s");
        await startEraAt(schema, AHEAD);
        const names = ["a", "b", "c", "d"];
        await grantTogether(store, [wish("s", "x", "x1"), wish("s", "y", "y1")]);
        proxy.cut("replies");
        const lost = names.map((name) =>
          store
            .grant({ ...wish("s", name, `${name}1`), limitMs: 1_000 })
            .catch((error: StoreUnavailableError) => error.applied),
        );
        expect(await Promise.all(lost)).toEqual(names.map(() => "unknown"));
        await proxy.heal();
        const again = names.map((name) => store.grant(wish("s", name, `${name}1`)));
        expect((await Promise.all(again)).map(requireToken)).toEqual([AHEAD, AHEAD, AHEAD, AHEAD]);
      },
    );
  },
);
