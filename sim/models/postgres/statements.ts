// Maps each statement of the store to its effect on the model. A statement is recognised by its
// whole text, and its values are read as its casts say. A statement that is missing here was added
// to the store but not to the model.

import type { Row, SqlValue } from "../../../src/clients/postgres/link.ts";
import { SCHEMA_VERSION } from "../../../src/stores/postgres/schema.ts";
import { SERVER, VERSION } from "../../../src/stores/postgres/setup.ts";
import { CALL, FACTS, KEPT, LIST, READ } from "../../../src/stores/postgres/statements.ts";
import type { Database, HandoffRow, LeaseRow, RevocationRow } from "./database.ts";
import * as fn from "./functions.ts";

type Values = readonly SqlValue[];
type Run = (db: Database, values: Values) => readonly Row[];

/** The store's default schema. */
export const SCHEMA = "tenure";

/** A statement without null values whose answer is one text. */
function one(answer: (db: Database, ...values: string[]) => string): Run {
  return (db, values) => [{ answer: answer(db, ...(values as readonly string[])) }];
}

const RUNS: readonly (readonly [text: string, run: Run])[] = [
  [CALL.openSession, one(fn.openSession)],
  [CALL.step, one(fn.step)],
  [CALL.regrant, (db, values) => [{ answer: fn.regrant(db, values) }]],
  [CALL.renew, one(fn.renew)],
  [CALL.withdraw, one(fn.withdraw)],
  [CALL.endSession, one(fn.endSession)],
  [CALL.revoke, one((db, resource, token) => fn.revoke(db, resource, BigInt(token)))],
  [CALL.checkExpiry, one(fn.checkExpiry)],
  [CALL.notify, one(notify)],
  [CALL.watch, one(watch)],
  [FACTS, facts],
  [LIST, list],
  [KEPT, kept],
  [READ, read],
  [SERVER, (db) => [serverRow(db)]],
  [VERSION, () => [{ version: String(SCHEMA_VERSION) }]],
];

const STATEMENTS: ReadonlyMap<string, Run> = new Map(
  RUNS.map(([text, run]) => [text.replaceAll("{schema}", SCHEMA), run]),
);

export function runStatement(db: Database, text: string, values: Values): readonly Row[] {
  const run = STATEMENTS.get(text);
  if (run !== undefined) return run(db, values);
  if (!text.includes("CREATE SCHEMA IF NOT EXISTS"))
    throw new Error(`The model of PostgreSQL does not know this statement: ${text}`);
  db.hasSchema = true;
  return [];
}

function notify(db: Database, channel: string, payload: string): string {
  db.parts.notify(channel, payload);
  return "";
}

function watch(db: Database, channel: string, seconds: string): string {
  db.watchers.set(channel, db.parts.now() + Number(seconds) * 1_000_000);
  return channel;
}

function facts(db: Database, [list]: Values): readonly Row[] {
  const sessions = JSON.parse(String(list)) as string[];
  const isIn = ({ session }: { session?: string | undefined }): boolean =>
    session !== undefined && sessions.includes(session);
  const queues = new Set([...db.waiters.values()].map(({ resource }) => resource));
  const found: (readonly [kind: string, row: LeaseRow | HandoffRow | RevocationRow])[] = [
    ...[...db.handoffs.values()]
      .filter(({ resource, session, token }) => {
        const lease = db.leases.get(resource);
        return lease?.session === session && lease.token === token;
      })
      .map((row) => ["granted", row] as const),
    ...db.revocations.map((row) => ["lost", row] as const),
    ...[...db.leases.values()]
      .filter(({ resource }) => queues.has(resource))
      .map((row) => ["wanted", row] as const),
  ];
  return found
    .filter(([, row]) => isIn(row))
    .map(([kind, row]) => {
      const { session, resource, token } = row;
      const attempt = kind === "granted" && "attempt" in row ? [row.attempt] : [];
      return { fact: JSON.stringify([kind, session, resource, String(token), ...attempt]) };
    });
}

function list(db: Database, values: Values): readonly Row[] {
  const [prefix, after, below, most] = values;
  const first = String(prefix);
  const isIn = (resource: string): boolean =>
    fn.compareText(resource, first) >= 0 &&
    fn.compareText(resource, after ?? "") > 0 &&
    (below == null || fn.compareText(resource, below) < 0);
  const held = [...db.leases.values()].filter(
    ({ resource, session }) => fn.isAlive(db, session) && isIn(resource),
  );
  held.sort((lease, other) => fn.compareText(lease.resource, other.resource));
  const rows = held.map((lease) => toView(db, lease));
  return most == null ? rows : rows.slice(0, Number(most));
}

function kept(db: Database, [resources, session]: Values): readonly Row[] {
  const found = (JSON.parse(String(resources)) as string[]).flatMap(
    (resource) => db.leases.get(resource) ?? [],
  );
  return found
    .filter((lease) => lease.session === session)
    .sort((lease, other) => fn.compareText(lease.resource, other.resource))
    .map(({ resource, token }) => ({ resource, token: String(token) }));
}

const NOTHING = { resource: null, token: null, record: null, left_ms: null, held_ms: null };

function read(db: Database, [asked]: Values): readonly Row[] {
  const lease = db.leases.get(String(asked));
  const isHeld = lease !== undefined && fn.isAlive(db, lease.session);
  return [{ ...(isHeld ? toView(db, lease) : NOTHING), standby: "false" }];
}

function toView(db: Database, { resource, token, record, session, granted }: LeaseRow): Row {
  const expires = db.sessions.get(session ?? "")?.expires ?? 0;
  const now = db.parts.now();
  return {
    resource,
    token: String(token),
    record,
    left_ms: String((expires - now) / 1000),
    held_ms: granted === undefined ? null : String((now - granted) / 1000),
  };
}

function serverRow({ hasSchema }: Database): Row {
  return {
    version: "170000",
    shown: "17.0 (a model)",
    standby: "false",
    readonly: "off",
    encoding: "UTF8",
    fsync: "on",
    present: String(hasSchema),
    asked: SCHEMA,
  };
}
