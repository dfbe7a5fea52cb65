// Goal: the simulator's model of PostgreSQL, which is written in TypeScript, matches the store's
// SQL in src/stores/postgres/grant.sql.ts. Method: send random calls, with the store's own
// statements, to a real server and to the model. Both clocks are set by the test, so every answer,
// every notification and every row must be equal.
import { describe, expect, test } from "vitest";
import { Chance } from "../../../sim/world/chance.ts";
import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import { type Step, toRegrant } from "../../../src/stores/postgres/batch.ts";
import { VERSION } from "../../../src/stores/postgres/setup.ts";
import { CALL, FACTS, KEPT, LIST, READ } from "../../../src/stores/postgres/statements.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import {
  CHANNEL,
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
/** In microseconds. They include the minute after which sessions are deleted. */
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
    if (text === CALL.step) {
      const steps = JSON.parse(String(values[0])) as Step[];
      for (const [index, [kind, token]] of (JSON.parse(answer) as string[][]).entries())
        if (kind === "granted") this.#granted.push({ ...steps[index], token } as Held);
    }
    if (text === CALL.regrant) {
      const [kind = "", token = ""] = (JSON.parse(answer) as string[][]).at(-1) ?? [];
      const [resource, session] = values.map(String);
      if (kind === "granted") this.#granted.push({ resource, session, token } as Held);
    }
    if (text === CALL.renew && answer !== "gone") {
      const { granted } = JSON.parse(answer) as { granted: string[][] };
      for (const [resource = "", token = ""] of granted)
        this.#granted.push({ resource, token, session: String(values[0]) });
    }
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

  #grantStep(): Step {
    const { resource, session, attempt } = this.#wanted();
    const record = JSON.stringify({ of: session, text: 'a "value" \\ {ü}' });
    const queue = this.#chance.isTrue(0.7);
    const rank = this.#chance.isTrue(0.2) ? 1 : 0;
    const holder = `of ${session}`;
    return { kind: "grant", resource, session, attempt, holder, record, rank, queue };
  }

  #releaseStep(): Step {
    const { resource, session, token } = this.#held();
    const preferred = this.#chance.isTrue(0.3) ? `of ${this.#session()}` : undefined;
    return { kind: "release", resource, session, token, preferred };
  }

  #step(...steps: Step[]): ReturnType<Draw> {
    const waits = steps.every(({ resource }) => resource === steps[0]?.resource);
    return [CALL.step, [JSON.stringify(steps), String(waits), LIMIT_MS]];
  }

  /** A grant, or a release and a grant of the same session, as the store sends them. */
  readonly #regrant: Draw = () => {
    const { resource, session, token } = this.#held();
    this.#attempts += 1;
    const attempt = `at ${this.#attempts}`;
    this.#known.push({ resource, session, attempt });
    const wanted = { ...this.#grantStep(), resource, session, attempt } as Step;
    const released = { kind: "release", resource, session, token, preferred: undefined } as const;
    const values = toRegrant(this.#chance.isTrue(0.7) ? [released, wanted] : [wanted]);
    if (values === undefined) throw new Error("These steps are a regrant.");
    return [CALL.regrant, [...values, LIMIT_MS]];
  };
  readonly #grant: Draw = () => this.#step(this.#grantStep());
  readonly #release: Draw = () => this.#step(this.#releaseStep());
  readonly #several: Draw = () =>
    this.#step(this.#releaseStep(), this.#grantStep(), this.#grantStep(), this.#releaseStep());
  readonly #revoke: Draw = () => {
    const { resource, token } = this.#held();
    return [CALL.revoke, [resource, token, LIMIT_MS]];
  };
  readonly #open: Draw = () => {
    const ttlMs = this.#chance.pick(TTLS_MS);
    const quietAfterMs = String(this.#chance.isTrue(0.3) ? ttlMs / 2 : ttlMs);
    const values = ["h", String(ttlMs), quietAfterMs, CHANNEL, LIMIT_MS];
    if (this.#sessions >= SESSIONS && this.#chance.isTrue(0.5))
      return [CALL.openSession, [this.#session(), ...values]];
    this.#sessions += 1;
    return [CALL.openSession, [`s${this.#sessions}`, ...values]];
  };
  readonly #renew: Draw = () => {
    const session = this.#session();
    const own = this.#known.filter((wanted) => wanted.session === session).slice(-3);
    const withdrawn = this.#chance.isTrue(0.3) ? own.filter(() => this.#chance.isTrue(0.5)) : [];
    const text = JSON.stringify(withdrawn.map(({ resource, attempt }) => ({ resource, attempt })));
    const drawRefs = (): string => {
      const refs = this.#granted.slice(-4).filter(() => this.#chance.isTrue(0.3));
      return JSON.stringify(refs.map(({ resource, token }) => ({ resource, token })));
    };
    return [CALL.renew, [session, text, drawRefs(), drawRefs(), LIMIT_MS]];
  };
  readonly #checkExpiry: Draw = () => {
    const { resource, session } = this.#wanted();
    return [CALL.checkExpiry, [resource, session, LIMIT_MS]];
  };

  /** Frequent statements are listed several times. */
  readonly #draws: readonly Draw[] = [
    this.#grant,
    this.#grant,
    this.#grant,
    this.#regrant,
    this.#regrant,
    this.#regrant,
    this.#several,
    this.#several,
    this.#release,
    this.#release,
    this.#open,
    this.#open,
    this.#renew,
    this.#renew,
    this.#revoke,
    this.#revoke,
    this.#checkExpiry,
    () => {
      const { resource, session, attempt } = this.#wanted();
      return [CALL.withdraw, [resource, session, attempt, LIMIT_MS]];
    },
    () => {
      // Rarely, or no session would stay alive.
      if (this.#chance.isTrue(0.7)) return this.#open();
      return [CALL.endSession, [this.#session(), LIMIT_MS]];
    },
    () => [READ, [this.#resource()]],
    () => [KEPT, [JSON.stringify(RESOURCES), this.#session()]],
    () => [FACTS, [JSON.stringify([this.#session(), this.#session()])]],
    () => {
      const [after, below] = [null, "b", "b/1", "y"].map((name) =>
        this.#chance.isTrue(0.5) ? name : null,
      );
      return [LIST, [this.#chance.pick(["", "b"]), after ?? null, below ?? null, null]];
    },
    () => [LIST, ["", null, null, "2"]],
    () => [CALL.watch, [CHANNEL, "3"]],
    () => [VERSION, ["true"]],
  ];
}

/** A normalized form: numbers by value, and lists of undefined order sorted. */
function normalize(rows: readonly Row[]): unknown[] {
  const normalized = rows.map((row) =>
    Object.fromEntries(
      Object.entries(row)
        .filter(([name]) => name !== "asked")
        .map(([name, value]) => [name, normalizeValue(name, value)]),
    ),
  );
  return rows[0]?.fact === undefined
    ? normalized
    : normalized.map((row) => JSON.stringify(row)).sort();
}

function normalizeValue(name: string, value: string | null): unknown {
  if (value !== null && ["left_ms", "held_ms"].includes(name)) return Number(value);
  if ((name === "answer" || name === "fact") && /^[[{]/.test(value ?? ""))
    return sortLists(JSON.parse(value ?? ""), name === "fact");
  return value !== null && /^\d+\.\d+$/.test(value) ? Number(value) : value;
}

/** The lists of a renewal have no order. The answers to steps and the parts of a fact do. */
function sortLists(answer: unknown, isOrdered: boolean): unknown {
  if (isOrdered || Array.isArray(answer)) return answer;
  return Object.fromEntries(
    Object.entries(answer as object).map(([name, value]) => [
      name,
      Array.isArray(value) ? value.map((each) => JSON.stringify(each)).sort() : value,
    ]),
  );
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
      const answer = String(rows[0]?.answer ?? "");
      const found = text === CALL.step ? (JSON.parse(answer) as string[][]) : [[answer]];
      for (const [kind = ""] of found) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
      for (const note of sent) kinds.set(note.slice(0, 9), 1);
      if (count % DUMP_EVERY === 0) {
        const [dump, dumpOfModel] = await both(real, model, (each) => each.dump());
        expect(dumpOfModel, what).toEqual(dump);
      }
    }
    // A series in which every request was rejected would prove nothing.
    for (const kind of ["granted", "queued", "busy", "gone", "ended", "released", "notHeld"])
      expect(kinds.get(kind) ?? 0, kind).toBeGreaterThan(0);
    for (const note of ['["granted', '["wanted"', '["lost", ', "changed"])
      expect(kinds.get(note) ?? 0, note).toBeGreaterThan(0);
  });
});
