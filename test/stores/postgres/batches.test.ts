// Goal: grants and releases that share a statement are each decided by their own row, as if sent
// alone, and those for one resource in their order. Method: many concurrent requests through real
// clients, and direct calls of the SQL function.
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
import { RecordedEvents } from "../../support/stores/session-events.ts";

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

async function session(
  store: Store,
  sessionId: string,
  events?: RecordedEvents,
  ttlMs = 60_000,
): Promise<void> {
  const holderId = `of ${sessionId}`;
  await store.openSession({ sessionId, holderId, ttlMs, events, limitMs: LIMIT_MS });
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

test("S1: forty concurrent grants take four statements, their releases three, and tokens increase", async () => {
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
        expect(counting.statements - before).toBe(7);
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

test("a release and a request for the same resource share a statement, in their order", async () => {
  const pool = new pg.Pool({ connectionString: server().url, max: 4 });
  const counting = countingPool(pool);
  await withStore(
    () => ({ client: counting }),
    async ({ store }) => {
      await session(store, "s");
      let token = requireToken(await store.grant(wish("s", "r", "a0")));
      const before = counting.statements;
      for (let round = 1; round <= 5; round += 1) {
        const released = store.release({ resource: "r", sessionId: "s", token, limitMs: LIMIT_MS });
        const next = requireToken(await store.grant(wish("s", "r", `a${round}`)));
        expect(await released).toEqual({ kind: "released" });
        expect(next).toBe(token + 1n);
        token = next;
      }
      expect(counting.statements - before).toBe(5);
    },
  );
  await pool.end();
});

test("a request for a resource waits for the release of it that is in flight", async () => {
  await withStore(byUrl, async ({ store, schema }) => {
    await session(store, "s");
    const token = requireToken(await store.grant(wish("s", "r", "a")));
    await withConsole(async (client) => {
      await client.query("BEGIN");
      await client.query(`SELECT FROM ${schema}.lease WHERE resource = 'r' FOR UPDATE`);
      const released = store.release({ resource: "r", sessionId: "s", token, limitMs: LIMIT_MS });
      const waits = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
      while ((await server().sql(`SELECT EXISTS (${waits})`)) !== "t");
      const next = store.grant(wish("s", "r", "b"));
      await client.query("COMMIT");
      expect(requireToken(await next)).toBe(token + 1n);
      expect(await released).toEqual({ kind: "released" });
    });
  });
});

describe("the SQL function", () => {
  const grantStep = (session: string, resource: string, attempt: string) => {
    const rest = { holder: "h", record: "x", rank: 0, queue: false };
    return { kind: "grant", session, resource, attempt, ...rest };
  };
  const releaseStep = (session: string, resource: string, held: bigint) => {
    const token = String(held);
    return { kind: "release", session, resource, token };
  };
  const call = (schema: string, steps: readonly object[]): string =>
    `SELECT ${schema}.step('${JSON.stringify(steps)}', false, 1000)`;
  const step = async (schema: string, ...steps: readonly object[]): Promise<unknown> =>
    JSON.parse(await server().sql(call(schema, steps)));

  test.each([
    ["expired", "expires = clock_timestamp() - interval '1 ms'"],
    ["ended", "ended = clock_timestamp()"],
  ])(
    "S4: it grants nothing to a session that has %s, and releases nothing of it",
    async (_, state) => {
      await withStore(byUrl, async ({ store, schema }) => {
        await session(store, "s");
        const token = requireToken(await store.grant(wish("s", "mine", "m")));
        await store.release({ resource: "mine", sessionId: "s", token, limitMs: LIMIT_MS });
        const now = requireToken(await store.grant(wish("s", "held", "h")));
        await server().sql(`UPDATE ${schema}.session SET ${state} WHERE id = 's'`);
        const answers = await step(
          schema,
          grantStep("s", "mine", "a"),
          grantStep("s", "new", "b"),
          releaseStep("s", "held", now),
        );
        expect(answers).toEqual([["gone"], ["gone"], ["notHeld"]]);
        const rows = `SELECT count(*) FROM ${schema}.lease WHERE resource = 'new'`;
        expect(await server().sql(rows)).toBe("0");
      });
    },
  );

  test("S5: it releases by session and token only", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await session(store, "other");
      const token = requireToken(await store.grant(wish("s", "r", "a")));
      const release = (sessionId: string, which: bigint): Promise<unknown> =>
        step(schema, releaseStep(sessionId, "r", which));
      expect(await release("other", token)).toEqual([["notHeld"]]);
      expect(await release("s", token + 1n)).toEqual([["notHeld"]]);
      expect(await release("s", token)).toEqual([["released"]]);
      expect(await release("s", token)).toEqual([["notHeld"]]);
    });
  });

  test("it notifies watchers once per statement, and sends nothing without a watcher", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      await startEraAt(schema, AHEAD);
      await withConsole(async (client) => {
        const payloads: (string | undefined)[] = [];
        client.on("notification", ({ payload }) => payloads.push(payload));
        const channel = `batches_watch_${schema}`;
        await client.query(`LISTEN "${channel}"`);
        // A notification of the client's own transaction arrives before the reply to it.
        await client.query(call(schema, [grantStep("s", "r", "a"), grantStep("s", "q", "b")]));
        expect(payloads).toEqual([]);
        await client.query(`INSERT INTO ${schema}.watcher VALUES ('${channel}', 'infinity')`);
        const refs = [releaseStep("s", "r", AHEAD), releaseStep("s", "q", AHEAD)];
        await client.query(call(schema, refs));
        expect(payloads.splice(0)).toEqual(["changed"]);
        await client.query(call(schema, [grantStep("s", "r", "c"), grantStep("s", "q", "d")]));
        expect(payloads.splice(0)).toEqual(["changed"]);
      });
    });
  });

  test("S1: the batch that recreates a deleted row continues above its token", async () => {
    await withStore(byUrl, async ({ store, schema }) => {
      await session(store, "s");
      const last = AHEAD + 41n;
      await startEraAt(schema, AHEAD);
      await server().sql(`
        INSERT INTO ${schema}.lease (resource, token, attempt, record) VALUES ('r', ${last}, '', '');
        DELETE FROM ${schema}.lease WHERE resource = 'r'`);
      const answers = await step(schema, grantStep("s", "r", "a"), grantStep("s", "q", "b"));
      const next = ["granted", String(last + 1n)];
      expect(answers).toEqual([next, next]);
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
    const events = new RecordedEvents();
    await session(other, "waiter", events);
    expect((await other.grant(wish("waiter", "b", "w1", true))).kind).toBe("queued");
    const refs = ["first", "a", "b"].map((resource) => ({
      resource,
      sessionId: "s",
      token: AHEAD,
    }));
    const freed = refs.map((ref) => store.release({ ...ref, limitMs: LIMIT_MS }));
    const kinds = (await Promise.all(freed)).map(({ kind }) => kind);
    expect(kinds).toEqual(["released", "released", "released"]);
    expect(await events.tokenOf("w1")).toBe(AHEAD + 1n);
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
