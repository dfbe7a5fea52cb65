// One contender of the fault trials. It acquires a lease or is elected, and acts every few
// milliseconds while it holds, and every millisecond when its deadline is near. An act is a line
// appended to the history of its trial, right after a check() that passed. Some acts also write to
// the shared resource, a SQLite file, through its guard. All times in the history are on the clock
// that the processes of this host share.
import { openSync, writeSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { loadDriver } from "../../../dist/clients/sqlite/driver.js";
import { sqliteGuard } from "../../../dist/guards/sqlite/index.js";
import { connect, onShutdown } from "../../../dist/index.js";
import { postgresStore } from "../../../dist/stores/postgres/index.js";
import { describeError, hostMs, onCommand, report, settings } from "../../process/workers/kit.mjs";

const ACTS_PER_WRITE = 50;
const RETRY_MS = 50;
const ACT_EVERY_MS = 5;
/** A lease that is not renewed acts every millisecond for this long before its deadline. */
const NEAR_MS = 400;
/**
 * Errors worth a retry: the store could not be reached or did not answer. Others end the contest.
 */
const RETRIED = ["STORE_UNAVAILABLE", "ACQUIRE_TIMEOUT"];

const driver = await loadDriver();
const offsetMs = measureHostOffset();
const contests = new Map();
let tenure;

/**
 * The offset from performance.now() to the host's clock. Both run at the same rate, so the fastest
 * of some readings is exact enough.
 */
function measureHostOffset() {
  const readings = Array.from({ length: 100 }, () => {
    const before = performance.now();
    const host = hostMs();
    return { tookMs: performance.now() - before, offset: host - before };
  });
  return readings.sort((a, b) => a.tookMs - b.tookMs)[0].offset;
}

function record(contest, event, facts) {
  const { resource, lease } = contest;
  const token = lease === undefined ? undefined : String(lease.token);
  const line = { event, process: settings.name, resource, token, at: hostMs(), ...facts };
  writeSync(contest.history, `${JSON.stringify(line)}\n`);
}

function openGuard(file) {
  const database = driver.open(file);
  // The guard must be real, but the file need not survive a power failure.
  database.exec("PRAGMA busy_timeout = 10000; PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF");
  database.exec("CREATE TABLE IF NOT EXISTS entry (token TEXT NOT NULL)");
  const guard = sqliteGuard(database);
  return (source) =>
    guard.transaction(source, (db) =>
      db.prepare("INSERT INTO entry VALUES (?)").run(String(source.token)),
    );
}

/**
 * Writes through the guard. A lease as the source is checked first. A source that is only a token
 * is not: that is a late write.
 */
function write(contest, source, late) {
  const facts = { token: String(source.token), began: hostMs(), late };
  try {
    contest.guardedWrite(source);
    record(contest, "wrote", { ...facts, outcome: "admitted" });
    return "admitted";
  } catch (error) {
    if (error.code === "LEASE_LOST" || error.code === "LEASE_IN_DOUBT") return "not tried";
    if (error.code !== "STALE_TOKEN") throw error;
    record(contest, "wrote", { ...facts, outcome: "refused" });
    return "refused";
  }
}

function recordLoss(contest, reason) {
  if (contest.isOver) return;
  contest.isOver = true;
  record(contest, "told", { reason });
  report("told", { resource: contest.resource, token: contest.lease.token, reason });
}

function reportDoubt(contest, event, at) {
  record(contest, event, { at });
  report(event, { resource: contest.resource, token: contest.lease.token });
}

/** Acts once. Returns whether the term continues. */
function act(contest) {
  const { lease } = contest;
  if (contest.isOver) return false;
  const began = hostMs();
  try {
    lease.check();
  } catch (error) {
    if (error.code === "LEASE_LOST") recordLoss(contest, error.reason);
    else if (!contest.inDoubt) reportDoubt(contest, "doubted", began);
    contest.inDoubt = true;
    return !contest.isOver;
  }
  if (contest.inDoubt) reportDoubt(contest, "settled", began);
  contest.inDoubt = false;
  const safeUntil = lease.safeUntil + offsetMs;
  if (safeUntil !== contest.safeUntil) record(contest, "renewed", { at: began, safeUntil });
  contest.safeUntil = safeUntil;
  record(contest, "acted", { began });
  contest.allActs += 1;
  if (contest.allActs % ACTS_PER_WRITE === 0) write(contest, lease, false);
  return true;
}

/** Serves one term, from its grant to its end or until `stopping` is aborted. */
async function serveTerm(contest, askedAt, stopping) {
  const { lease } = contest;
  const safeUntil = lease.safeUntil + offsetMs;
  Object.assign(contest, { safeUntil, inDoubt: false, isOver: false });
  record(contest, "granted", { askedAt, safeUntil });
  // Before the first act, so that from now on the guard rejects the former holder.
  write(contest, lease, false);
  report("granted", { resource: contest.resource, token: lease.token });
  lease.signal.addEventListener("abort", () => recordLoss(contest, lease.signal.reason.reason));
  while (!stopping?.aborted && act(contest)) {
    const isNear = lease.safeUntil - performance.now() < NEAR_MS;
    await sleep(isNear ? 1 : ACT_EVERY_MS);
  }
}

async function compete(contest, options) {
  do {
    const askedAt = hostMs();
    try {
      contest.lease = await tenure.acquire(contest.resource, options);
    } catch (error) {
      contest.lease = undefined;
      record(contest, "failed", { code: error.code });
      report("failed", { resource: contest.resource, error: describeError(error) });
      if (!RETRIED.includes(error.code)) return;
      await sleep(RETRY_MS);
      continue;
    }
    await serveTerm(contest, askedAt);
  } while (contest.again || contest.lease === undefined);
}

function join({ resource, history, guard, again }) {
  const file = openSync(history, "a");
  const contest = { resource, history: file, guardedWrite: openGuard(guard), again, allActs: 0 };
  contests.set(resource, contest);
  return contest;
}

/**
 * Runs an election whose leader acts like any other holder. Its events go to the test, and a
 * planned end goes into the history.
 */
function campaign(contest, options) {
  let askedAt = hostMs();
  let endedAt = 0;
  const onEvent = ({ type, term, release, error }) => {
    if (type === "campaigning") askedAt = hostMs();
    if (type === "resigned") record(contest, "released", { began: endedAt, result: release });
    report("election", {
      resource: contest.resource,
      type,
      term,
      error: error && describeError(error),
    });
  };
  const prepare = () => {
    if (!contest.isReady) throw new Error("not ready");
  };
  const lead = async (lease, stopping) => {
    contest.lease = lease;
    await serveTerm(contest, askedAt, stopping);
    endedAt = hostMs();
    if (contest.hangs) await new Promise((letGo) => Object.assign(contest, { letGo }));
  };
  contest.election = tenure
    .election(contest.resource, { ...options, prepare, lead, onEvent })
    .start();
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
  /**
   * Answers immediately; grants and losses are reported as events. With `again` it competes again
   * after every loss.
   */
  compete: ({ options, ...place }) => {
    void compete(join(place), { waitMs: 60_000, ...options });
  },
  /**
   * The same by an election. `ready`: prepare succeeds; `hangs`: lead does not return when its term
   * ends.
   */
  campaign: ({ options, ready = true, hangs = false, ...place }) => {
    campaign(Object.assign(join(place), { isReady: ready, hangs }), options);
  },
  /** From now on prepare succeeds, and lead returns. */
  recover: ({ resource }) => {
    const contest = contests.get(resource);
    Object.assign(contest, { isReady: true, hangs: false });
    contest.letGo?.();
  },
  revoke: async ({ resource }) => ({ revoked: await tenure.revoke(resource) }),
  /** Answers after this many more acts, in this term or the next. */
  act: async ({ resource, times }) => {
    const contest = contests.get(resource);
    const enough = contest.allActs + times;
    while (contest.allActs < enough) await sleep(ACT_EVERY_MS);
  },
  /** Takes and releases the resource once, without acting. */
  visit: async ({ resource }) => {
    const lease = await tenure.acquire(resource, { waitMs: 20_000 });
    await lease.release();
    return { token: lease.token };
  },
  release: async ({ resource }) => {
    const contest = contests.get(resource);
    if (contest.election !== undefined) return { result: (await contest.election.stop()).release };
    contest.again = false;
    contest.isOver = true;
    const began = hostMs();
    const result = await contest.lease.release();
    record(contest, "released", { began, result });
    return { result };
  },
  /** Simulates a process that was frozen between its check and its write. */
  lateWrite: ({ resource, token }) => ({
    outcome: write(contests.get(resource), { resource, token: BigInt(token) }, true),
  }),
  guarantees: () => ({ guarantees: tenure.guarantees }),
};

onCommand(async ({ id, do: name, ...request }) => {
  try {
    report("answer", { id, ...(await commands[name](request)) });
  } catch (error) {
    report("answer", { id, error: describeError(error) });
  }
});
report("ready");
