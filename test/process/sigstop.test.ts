// Goal: a holder that was stopped past its ttl and goes on does not act once more. Method: SIGSTOP while another process
// waits, SIGCONT when that one holds. Every process stamps its acts with CLOCK_MONOTONIC, which they share, so the acts
// of the first holder can be laid beside the grant of the second. In a busy event loop I/O callbacks run before timers
// after a stop (reliability.md 6.1: 137 of 150 runs leak there when a timer is the guard), so only check() can refuse.
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { type Child, crew, type Told } from "../support/process/process-children.ts";
import {
  hostMs,
  ms,
  numberOf,
  peek,
  until,
  writeLockIsFree,
} from "../support/process/process-file.ts";
import { type Failure, puppet } from "../support/process/process-puppet.ts";

const ACTOR = new URL("./workers/actor.mjs", import.meta.url);
const TIMING = { ttlMs: 1_000, clockErrorMs: 10, roundTripMs: 100 };
const ROUNDS = 6;
const processes = crew();

interface Round {
  readonly token: bigint;
  readonly successor: { readonly token: bigint; readonly at: number };
  /** The first check that did not pass. */
  readonly refused: Told;
}

/**
 * A process that is stopped inside a write transaction keeps SQLite's write lock, and everyone stalls until it goes on
 * or dies (S7). That is another story, so here it is stopped elsewhere.
 */
async function stopOutsideTransaction(child: Child, file: string): Promise<void> {
  await until("it is stopped and nobody writes", () => {
    child.signal("SIGSTOP");
    if (writeLockIsFree(file)) return true;
    child.signal("SIGCONT");
    return false;
  });
}

async function rounds(busy: boolean): Promise<Round[]> {
  const file = join(processes.folder(), "tenure.db");
  const actor = processes.start(ACTOR, { file, busy, options: { ...TIMING, waitMs: 30_000 } });
  await actor.heard("ready");
  const other = await puppet(processes, file);
  const look = peek(processes, file);
  const seen: Round[] = [];
  for (let round = 0; round < ROUNDS; round += 1) {
    const begunAt = hostMs();
    actor.say({ do: "hold" });
    const held = await actor.heard("held", (told) => told.at > begunAt);
    if (busy) await actor.heard("warm", (told) => told.at > begunAt);
    const successor = other.acquire("settlement", { ...TIMING, waitMs: 30_000 });
    await until("it waits", () => numberOf(look("SELECT count(*) FROM waiter")) === 1);
    await stopOutsideTransaction(actor, file);
    // Lies in the pipe while the holder is stopped: its next act is asked for before it goes on.
    if (!busy) actor.say({ do: "act" });
    const granted = await successor;
    actor.signal("SIGCONT");
    const token = BigInt(String(held.token));
    if (!busy) {
      const asked = await actor.heard("asked", (told) => told.at > begunAt);
      expect(asked.passed, "the check of the resumed holder passed").toBe(false);
    }
    const refused = await actor.heard("refused", (told) => told.at > begunAt);
    seen.push({ token, successor: granted, refused });
    await other.release("settlement");
  }
  return seen;
}

describe.each([
  ["an idle", false],
  ["a busy", true],
])("SIGSTOP past the ttl, then SIGCONT, with %s event loop", (loop, busy) => {
  test("S6: the next check() of the resumed holder throws, and no act passed after the successor's grant", async () => {
    const seen = await rounds(busy);
    expect(seen).toHaveLength(ROUNDS);
    for (const { token, successor, refused } of seen) {
      expect(successor.token).toBeGreaterThan(token);
      const error = refused.error as Failure;
      expect([error.name, error.code, error.reason]).toEqual([
        "LeaseLostError",
        "LEASE_LOST",
        "expired",
      ]);
      const passed = refused.passed as readonly number[];
      expect(passed.length).toBeGreaterThan(0);
      expect(passed.filter((at) => at >= successor.at)).toEqual([]);
    }
    const noticed = seen.map(({ successor, refused }) => refused.at - successor.at);
    const acts = seen.reduce((sum, { refused }) => sum + Number(refused.acts), 0);
    console.log(
      `      ${loop} loop: ${ROUNDS} stops, ${acts} acts, 0 after the successor's grant, ` +
        `refused ${ms(Math.min(...noticed))} to ${ms(Math.max(...noticed))} after it`,
    );
  });
});
