// Goal: the simulator's model of PostgreSQL, which is written in TypeScript, matches the store's
// SQL in src/stores/postgres/functions.ts. Method: send random calls, with the store's own
// statements, to a real server and to the model. Both clocks are set by the test, so every answer,
// every notification and every row must be equal.
import { describe, expect, test } from "vitest";
import { Chance } from "../../../sim/world/chance.ts";
import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import { listOf } from "../../../src/clients/postgres/lists.ts";
import { VERSION } from "../../../src/stores/postgres/setup.ts";
import { CALL, KEPT, LIST, LOOK, READ } from "../../../src/stores/postgres/statements.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import {
  type FrozenDatabase,
  openFrozenModel,
  openFrozenServer,
} from "../../support/stores/postgres-frozen-clock.ts";

const server = useServer(startPostgres);

const STATEMENTS = 400;
const DUMP_EVERY = 50;
/** The probability, before each statement, that the server restarts or that a row is deleted. */
const RESTARTS = 0.02;
const DELETIONS = 0.02;
const LIMIT_MS = "5000";
const RESOURCES = ["a", "b/1", "b/2", 'ü "q" \\ \u{1f511}', "z"];
/** How many of the newest sessions are in use. */
const SESSIONS = 5;
const TTLS_MS = [200, 1_000, 300_000, 300_000, 300_000];
/**
 * In microseconds. They include the head start, and the minute after which sessions are forgotten.
 */
const STEPS: readonly number[] = [
  ...Array.from({ length: 60 }, () => 0),
  1,
  1,
  999,
  50_000,
  100_000,
  250_000,
  251_000,
  1_000_000,
  1_000_000,
  61_000_000,
];

const START = 1_700_000_000_000_000;

type Draw = () => readonly [text: string, values: readonly SqlValue[]];
type Wanted = { readonly resource: string; readonly session: string; readonly attempt: string };
type Held = { readonly resource: string; readonly session: string; readonly token: string };

/** Draws statements like those of real processes, including late and repeated ones. */
class Calls {
  readonly #chance: Chance;
  #attempts = 0;
  #sessions = 0;
  /** Earlier requests, so that old attempts and tokens occur again. */
  readonly #known: Wanted[] = [];
  #batch: Wanted[] = [];
  readonly #granted: Held[] = [];

  constructor(chance: Chance) {
    this.#chance = chance;
  }

  next(): ReturnType<Draw> {
    return this.#sessions < SESSIONS ? this.#open() : this.#chance.pick(this.#draws)();
  }

  /** Remembers the tokens that were granted, for later statements. */
  learn(text: string, values: readonly SqlValue[], rows: readonly Row[]): void {
    const answer = String(rows[0]?.answer ?? "");
    if (text === CALL.grant && answer.startsWith("granted ")) {
      const [resource = "", session = ""] = values.map(String);
      this.#granted.push({ resource, session, token: answer.slice("granted ".length) });
    }
    if (text === CALL.grants)
      for (const [index, token] of answer.split(" ").entries())
        if (token !== "-") this.#granted.push({ ...this.#batch[index], token } as Held);
  }

  #wanted(): Wanted {
    if (this.#known.length > 0 && this.#chance.isTrue(0.4))
      return this.#chance.pick(this.#known.slice(-5));
    this.#attempts += 1;
    const attempt = `at ${this.#attempts}`;
    const wanted = { resource: this.#resource(), session: this.#session(), attempt };
    this.#known.push(wanted);
    return wanted;
  }

  #held(): Held {
    if (this.#granted.length > 0 && this.#chance.isTrue(0.9))
      return this.#chance.pick(this.#granted.slice(-4));
    return { resource: this.#resource(), session: this.#session(), token: "1" };
  }

  /** One of the resources is contended most. */
  #resource = (): string => this.#chance.pick(this.#chance.isTrue(0.6) ? ["a"] : RESOURCES);
  #session = (): string => `s${this.#sessions - this.#chance.below(SESSIONS)}`;

  readonly #grant: Draw = () => {
    const { resource, session, attempt } = this.#wanted();
    const record = JSON.stringify({ of: session });
    const queue = String(this.#chance.isTrue(0.6));
    return [CALL.grant, [resource, session, attempt, record, queue, LIMIT_MS]];
  };
  readonly #look: Draw = () => {
    const { resource, attempt } = this.#chance.pick([this.#wanted(), ...this.#known.slice(-12)]);
    return [LOOK, [resource, attempt]];
  };
  readonly #release: Draw = () => {
    const { resource, session, token } = this.#held();
    return [CALL.release, [resource, session, token, LIMIT_MS]];
  };
  readonly #revoke: Draw = () => {
    const { resource, token } = this.#held();
    return [CALL.revoke, [resource, token, LIMIT_MS]];
  };
  readonly #open: Draw = () => {
    const ttl = String(this.#chance.pick(TTLS_MS));
    if (this.#sessions >= SESSIONS && this.#chance.isTrue(0.5))
      return [CALL.openSession, [this.#session(), "h", ttl, LIMIT_MS]];
    this.#sessions += 1;
    return [CALL.openSession, [`s${this.#sessions}`, "h", ttl, LIMIT_MS]];
  };
  readonly #renew: Draw = () => {
    const session = this.#session();
    const own = this.#known.filter((wanted) => wanted.session === session).slice(-3);
    const withdrawn = this.#chance.isTrue(0.3) ? own.filter(() => this.#chance.isTrue(0.5)) : [];
    const text = JSON.stringify(withdrawn.map(({ resource, attempt }) => ({ resource, attempt })));
    const refs = this.#granted.slice(-4).filter(() => this.#chance.isTrue(0.3));
    const acknowledged = refs.map(({ resource, token }) => ({ resource, token }));
    return [CALL.renew, [session, text, JSON.stringify(acknowledged), LIMIT_MS]];
  };

  /** Frequent statements are listed several times. */
  readonly #draws: readonly Draw[] = [
    this.#grant,
    this.#grant,
    this.#grant,
    this.#grant,
    this.#grant,
    this.#look,
    this.#look,
    this.#release,
    this.#release,
    this.#open,
    this.#open,
    this.#renew,
    this.#renew,
    this.#revoke,
    this.#revoke,
    () => {
      const wanted = [...RESOURCES.slice(2), "y"].map((resource) => ({
        ...this.#wanted(),
        resource,
      }));
      this.#batch = wanted;
      const column = (name: "resource" | "session" | "attempt"): string =>
        listOf(wanted.map((each) => each[name]));
      const records = listOf(wanted.map(() => '{"of":"a \\"batch\\""}'));
      return [
        CALL.grants,
        [column("resource"), column("session"), column("attempt"), records, LIMIT_MS],
      ];
    },
    () => {
      const held = [this.#held(), this.#held(), this.#held()];
      const once = held.filter(
        ({ resource }, index) => held.findIndex((each) => each.resource === resource) === index,
      );
      const column = (name: "resource" | "session" | "token"): string =>
        listOf(once.map((each) => each[name]));
      return [CALL.releases, [column("resource"), column("session"), column("token"), LIMIT_MS]];
    },
    () => {
      const { resource, session, attempt } = this.#wanted();
      return [CALL.withdraw, [resource, session, attempt, LIMIT_MS]];
    },
    () => {
      // Rarely, or no session would stay alive.
      if (this.#chance.isTrue(0.7)) return this.#open();
      const held = RESOURCES.filter(() => this.#chance.isTrue(0.3));
      return [CALL.endSession, [this.#session(), JSON.stringify(held), LIMIT_MS]];
    },
    () => [READ, [this.#resource()]],
    () => [KEPT, [listOf(RESOURCES), this.#session()]],
    () => {
      const [after, below] = [null, "b", "b/1", "y"].map((name) =>
        this.#chance.isTrue(0.5) ? name : null,
      );
      return [LIST, [this.#chance.pick(["", "b"]), after ?? null, below ?? null, null]];
    },
    () => [LIST, ["", null, null, "2"]],
    () => [CALL.watch, ["w", "3"]],
    () => [VERSION, ["true"]],
  ];
}

/** A normalized form: numbers by value, and lists of undefined order sorted. */
function normalize(rows: readonly Row[]): unknown[] {
  return rows.map((row) =>
    Object.fromEntries(
      Object.entries(row)
        .filter(([name]) => name !== "asked")
        .map(([name, value]) => [name, normalizeValue(name, value)]),
    ),
  );
}

function normalizeValue(name: string, value: string | null): unknown {
  if (value !== null && ["left_ms", "held_ms", "wait"].includes(name)) return Number(value);
  if (name !== "answer" || value?.startsWith("{") !== true) return value;
  const { ttlMs, floor, gone, free } = JSON.parse(value) as {
    ttlMs: string;
    floor: string;
    gone: object[];
    free: string[];
  };
  return {
    ttlMs,
    floor,
    gone: gone.map((each) => JSON.stringify(each)).sort(),
    free: [...free].sort(),
  };
}

async function both<T>(
  real: FrozenDatabase,
  model: FrozenDatabase,
  ask: (of: FrozenDatabase) => Promise<T>,
): Promise<[T, T]> {
  return [await ask(real), await ask(model)];
}

describe("the real server and the model", () => {
  test.each([1, 2, 3])("random calls get the same answers, series %i", async (series) => {
    const chance = new Chance(`postgres model ${series}`);
    const calls = new Calls(chance);
    await using real = await openFrozenServer(server(), `model_${series}_${process.pid}`);
    const model = openFrozenModel();
    const kinds = new Map<string, number>();
    let micros = START;
    await both(real, model, (each) => each.setClock(micros));
    for (let count = 1; count <= STATEMENTS; count += 1) {
      if (chance.isTrue(RESTARTS)) await both(real, model, (each) => each.restart());
      if (chance.isTrue(DELETIONS)) {
        const resource = chance.pick(RESOURCES);
        await both(real, model, (each) => each.deleteLease(resource));
      }
      const step = chance.pick(STEPS);
      micros += step;
      if (step > 0) await both(real, model, (each) => each.setClock(micros));
      const [text, values] = calls.next();
      const [rows, modelled] = await both(real, model, (each) => each.ask(text, values));
      const what = `statement ${count}: ${text} ${JSON.stringify(values)}`;
      expect(normalize(modelled), what).toEqual(normalize(rows));
      const [sent, sentByModel] = await both(real, model, (each) => each.takeNotifications());
      expect(sentByModel, what).toEqual(sent);
      calls.learn(text, values, rows);
      const kind = String(rows[0]?.answer ?? "").split(/[ {]/)[0] ?? "";
      kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      if (count % DUMP_EVERY === 0) {
        const [dump, dumpOfModel] = await both(real, model, (each) => each.dump());
        expect(dumpOfModel, what).toEqual(dump);
      }
    }
    // A series in which every request was rejected would prove nothing.
    for (const kind of ["granted", "busy", "gone", "ended", "released", "notHeld", "revoked"])
      expect(kinds.get(kind) ?? 0, kind).toBeGreaterThan(0);
  });

  // A row that was never released has been free since -infinity. Before PostgreSQL 17, subtracting
  // -infinity is an error.
  test.each(["deleted by an administrator", "held by a forgotten session"])(
    "a row that was never released, %s, gives the same answers while others wait for it",
    async (how) => {
      await using real = await openFrozenServer(
        server(),
        `model_${how.split(" ")[0]}_${process.pid}`,
      );
      const model = openFrozenModel();
      const ask = async (text: string, values: readonly SqlValue[]): Promise<unknown> => {
        const [rows, modelled] = await both(real, model, (each) => each.ask(text, values));
        expect(normalize(modelled), `${text} ${JSON.stringify(values)}`).toEqual(normalize(rows));
        return rows[0]?.answer;
      };
      const open = (id: string, ttlMs: string) => ask(CALL.openSession, [id, "h", ttlMs, LIMIT_MS]);
      const grant = (session: string, attempt: string) =>
        ask(CALL.grant, ["a", session, attempt, "{}", "true", LIMIT_MS]);
      await both(real, model, (each) => each.setClock(START));
      await open("s1", "1000");
      await open("s2", "300000");
      await open("s3", "300000");
      const [, first] = String(await grant("s1", "one")).split(" ");
      expect(first).toBe(String(START));
      expect(await grant("s2", "two")).toBe("busy {}");
      if (how === "deleted by an administrator")
        await both(real, model, (each) => each.deleteLease("a"));
      else await both(real, model, (each) => each.setClock(START + 70_000_000));
      // Opening a session forgets the sessions that expired more than a minute ago.
      await open("s4", "1000");
      expect(await grant("s3", "three")).toBe(`granted ${START + 1}`);
      const [dump, dumpOfModel] = await both(real, model, (each) => each.dump());
      expect(dumpOfModel).toEqual(dump);
    },
  );
});
