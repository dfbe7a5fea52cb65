// One contender of the fault trials: acquires or is elected, and while it holds acts every millisecond. An act is a line
// appended to the history of its trial, right behind a check() that passed; now and then it also writes through the guard of
// the shared resource, a SQLite file. The history tells what it did and when, on the clock that all processes of this host share.
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { sqliteGuard } from "../../../dist/guards/sqlite.js";
import { connect, onShutdown } from "../../../dist/index.js";
import { postgresStore } from "../../../dist/stores/postgres.js";
import { loadDriver } from "../../../dist/stores/sqlite/driver.js";
import { factsOf, hostMs, onCommand, settings, tell } from "../../process/workers/kit.mjs";

const ACTS_PER_WRITE = 50;
const RETRY_MS = 50;
/** The store could not be asked, or did not answer: worth another try. Anything else is for the test to see. */
const RETRIED = ["STORE_UNAVAILABLE", "ACQUIRE_TIMEOUT"];

const driver = await loadDriver();
const offsetMs = offsetToHost();
const seats = new Map();
let tenure;

/** From performance.now() to the host's clock: the same clock with another zero, so the tightest of some readings is true. */
function offsetToHost() {
  const readings = Array.from({ length: 100 }, () => {
    const before = performance.now();
    const host = hostMs();
    return { tookMs: performance.now() - before, offset: host - before };
  });
  return readings.sort((a, b) => a.tookMs - b.tookMs)[0].offset;
}

function record(seat, event, facts) {
  const { resource, lease } = seat;
  const token = lease === undefined ? undefined : String(lease.token);
  const line = { event, process: settings.name, resource, token, at: hostMs(), ...facts };
  writeSync(seat.history, `${JSON.stringify(line)}\n`);
}

function openGuard(file) {
  const database = driver.open(file);
  // The guard is real, the disk need not be: nobody cuts the power here.
  database.exec("PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  database.exec("CREATE TABLE IF NOT EXISTS entry (token TEXT NOT NULL)");
  const guard = sqliteGuard(database);
  return (source) =>
    guard.transaction(source, (db) =>
      db.prepare("INSERT INTO entry VALUES (?)").run(String(source.token)),
    );
}

/** Writes through the guard. A lease as the source is asked first; its bare facts are not: that is a late write. */
function write(seat, source, late) {
  const facts = { token: String(source.token), began: hostMs(), late };
  try {
    seat.guardedWrite(source);
    record(seat, "wrote", { ...facts, outcome: "admitted" });
    return "admitted";
  } catch (error) {
    if (error.code === "LEASE_LOST" || error.code === "LEASE_IN_DOUBT") return "not tried";
    if (error.code !== "STALE_TOKEN") throw error;
    record(seat, "wrote", { ...facts, outcome: "refused" });
    return "refused";
  }
}

function beTold(seat, reason) {
  if (seat.isOver) return;
  seat.isOver = true;
  record(seat, "told", { reason });
  tell("told", { resource: seat.resource, token: seat.lease.token, reason });
}

function tellOfDoubt(seat, event, at) {
  record(seat, event, { at });
  tell(event, { resource: seat.resource, token: seat.lease.token });
}

/** Whether the term goes on. */
function act(seat) {
  const { lease } = seat;
  if (seat.isOver) return false;
  const began = hostMs();
  try {
    lease.check();
  } catch (error) {
    if (error.code === "LEASE_LOST") beTold(seat, error.reason);
    else if (!seat.inDoubt) tellOfDoubt(seat, "doubted", began);
    seat.inDoubt = true;
    return !seat.isOver;
  }
  if (seat.inDoubt) tellOfDoubt(seat, "settled", began);
  seat.inDoubt = false;
  const safeUntil = lease.safeUntil + offsetMs;
  if (safeUntil !== seat.safeUntil) record(seat, "renewed", { at: began, safeUntil });
  seat.safeUntil = safeUntil;
  record(seat, "acted", { began });
  seat.allActs += 1;
  if (seat.allActs % ACTS_PER_WRITE === 0) write(seat, lease, false);
  return true;
}

/** One term, from its grant to its end, or until it is asked to stop. */
async function reign(seat, askedAt, stopping) {
  const { lease } = seat;
  const safeUntil = lease.safeUntil + offsetMs;
  Object.assign(seat, { safeUntil, inDoubt: false, isOver: false });
  record(seat, "granted", { askedAt, safeUntil });
  // Before the first act: from here on the guard refuses whoever held before.
  write(seat, lease, false);
  tell("granted", { resource: seat.resource, token: lease.token });
  lease.signal.addEventListener("abort", () => beTold(seat, lease.signal.reason.reason));
  while (!stopping?.aborted && act(seat)) await sleep(1);
}

async function compete(seat, options) {
  do {
    const askedAt = hostMs();
    try {
      seat.lease = await tenure.acquire(seat.resource, options);
    } catch (error) {
      seat.lease = undefined;
      record(seat, "failed", { code: error.code });
      tell("failed", { resource: seat.resource, error: factsOf(error) });
      if (!RETRIED.includes(error.code)) return;
      await sleep(RETRY_MS);
      continue;
    }
    await reign(seat, askedAt);
  } while (seat.again || seat.lease === undefined);
}

function sit({ resource, history, guard, again }) {
  const file = openSync(history, "a");
  const seat = { resource, history: file, guardedWrite: openGuard(guard), again, allActs: 0 };
  seats.set(resource, seat);
  return seat;
}

/** An election whose leader acts like any other holder. What it tells goes to the test; a planned end into the history. */
function campaign(seat, options) {
  let askedAt = hostMs();
  let endedAt = 0;
  const onEvent = ({ type, term, release, error }) => {
    if (type === "campaigning") askedAt = hostMs();
    if (type === "resigned") record(seat, "released", { began: endedAt, result: release });
    tell("election", { resource: seat.resource, type, term, error: error && factsOf(error) });
  };
  const prepare = () => {
    if (!seat.isReady) throw new Error("not ready");
  };
  const lead = async (lease, stopping) => {
    seat.lease = lease;
    await reign(seat, askedAt, stopping);
    endedAt = hostMs();
    if (seat.hangs) await new Promise((letGo) => Object.assign(seat, { letGo }));
  };
  seat.election = tenure.election(seat.resource, { ...options, prepare, lead, onEvent }).start();
}

const commands = {
  connect: async ({ url, library, defaults }) => {
    const target =
      library !== undefined && url.startsWith("postgres")
        ? postgresStore({ url, library })
        : library === undefined
          ? url
          : `${url}?library=${library}`;
    tenure = await connect(target, { defaults, holderId: settings.name });
    onShutdown(tenure, { graceMs: 20_000 });
  },
  /** Answers at once; grants and losses are told. `again`: whenever it has lost the lease it asks for it anew. */
  compete: ({ options, ...place }) => {
    void compete(sit(place), { waitMs: 60_000, ...options });
  },
  /** The same by an election. `ready`: prepare succeeds; `hangs`: lead does not return when its term is over. */
  campaign: ({ options, ready = true, hangs = false, ...place }) => {
    campaign(Object.assign(sit(place), { isReady: ready, hangs }), options);
  },
  /** From now on prepare succeeds, and lead returns. */
  recover: ({ resource }) => {
    const seat = seats.get(resource);
    Object.assign(seat, { isReady: true, hangs: false });
    seat.letGo?.();
  },
  revoke: async ({ resource }) => ({ revoked: await tenure.revoke(resource) }),
  /** Answers when it has acted so many times more, in this term or the next. */
  act: async ({ resource, times }) => {
    const seat = seats.get(resource);
    const enough = seat.allActs + times;
    while (seat.allActs < enough) await sleep(1);
  },
  /** Takes it once and gives it back, without acting. */
  visit: async ({ resource }) => {
    const lease = await tenure.acquire(resource, { waitMs: 20_000 });
    await lease.release();
    return { token: lease.token };
  },
  release: async ({ resource }) => {
    const seat = seats.get(resource);
    if (seat.election !== undefined) return { result: (await seat.election.stop()).release };
    seat.again = false;
    seat.isOver = true;
    const began = hostMs();
    const result = await seat.lease.release();
    record(seat, "released", { began, result });
    return { result };
  },
  /** What a process does that was frozen between its check and its write. */
  lateWrite: ({ resource, token }) => ({
    outcome: write(seats.get(resource), { resource, token: BigInt(token) }, true),
  }),
  guarantees: () => ({ guarantees: tenure.guarantees }),
};

onCommand(async ({ id, do: name, ...request }) => {
  try {
    tell("answer", { id, ...(await commands[name](request)) });
  } catch (error) {
    tell("answer", { id, error: factsOf(error) });
  }
});
tell("ready");
