// Goal: the library keeps a process alive while it waits for an answer, but not one that is done,
// and writes nothing to stderr. Method: workers without stdin, sockets or timers of their own. The
// tests check when they end and with which code.
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { hostMs, ms, peek, until } from "../support/process/process-file.ts";
import { puppet } from "../support/process/process-puppet.ts";

const IDLE_PROCESS = new URL("./workers/idle-process.mjs", import.meta.url);
const LOCKER = new URL("./workers/locker.mjs", import.meta.url);
const TIMING = { ttlMs: 600, clockErrorMs: 10, roundTripMs: 50 };
/** For a lease that must not expire before it is released, even on a busy machine. */
const LASTING = { ttlMs: 5_000, renewEveryMs: 300, clockErrorMs: 50, roundTripMs: 500 };
const processes = crew();

function startIdleProcess(settings: object): Child {
  return processes.start(IDLE_PROCESS, { timing: TIMING, ...settings }, { commands: false });
}

async function expectSilentExit(child: Child): Promise<void> {
  expect(await child.exited).toEqual({ code: 0, signal: null });
  expect(child.errors).toBe("");
}

/**
 * Waits until the sessions in the file have been renewed for two ttls, which is long after an idle
 * event loop would have ended. Returns early if the child exits.
 */
async function untilRenewed(file: string, sessions: number, child: Child): Promise<void> {
  const query = peek(processes, file);
  const expiries = (): number[] =>
    query("SELECT expires_ms FROM session ORDER BY id").map((row) => Number(row.expires_ms));
  await until("the sessions exist", () => child.hasExited || expiries().length === sessions);
  const first = expiries();
  const haveRenewed = (): boolean =>
    expiries().every((expiry, index) => expiry > (first[index] ?? 0) + 2 * TIMING.ttlMs);
  await until("they were renewed for two ttls", () => child.hasExited || haveRenewed());
}

test("a process that holds a lease and has nothing else to do exits silently with code 0", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = startIdleProcess({ file, scenario: "hold", timing: { ttlMs: 10_000 } });
  const held = await child.heard("held");
  await expectSilentExit(child);
  const tookMs = hostMs() - held.at;
  console.log(`      an idle holder exited ${ms(tookMs)} after its grant`);
  // The first renewal is due after 3.3 s, so the process did not wait for that timer.
  expect(tookMs).toBeLessThan(2_000);
});

test("L4: a process that exits right after withLease() leaves its resource free", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = startIdleProcess({ file, scenario: "exit", timing: { ttlMs: 60_000 } });
  await child.heard("worked");
  await expectSilentExit(child);
  const [lease] = peek(processes, file)("SELECT token, session FROM lease");
  expect(lease).toMatchObject({ session: null });
});

test("keepProcessAlive keeps a process that holds a lease alive, and the lease is renewed", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = startIdleProcess({ file, scenario: "hold", keepProcessAlive: true });
  await child.heard("end");
  await untilRenewed(file, 1, child);
  expect(child.hasExited).toBe(false);
  expect(child.errors).toBe("");
});

test.each([
  ["without a limit", undefined],
  ["with a limit", 30_000],
])(
  "a process that waits in acquire() %s stays alive, gets the lease and exits with code 0",
  async (_kind, waitMs) => {
    const file = join(processes.folder(), "tenure.db");
    const holder = await puppet(processes, file);
    const { token } = await holder.acquire("settlement", LASTING);
    const child = startIdleProcess({ file, scenario: "wait", waitMs, timing: LASTING });
    await untilRenewed(file, 2, child);
    expect({ exited: child.hasExited, errors: child.errors }).toEqual({
      exited: false,
      errors: "",
    });
    await holder.release("settlement");
    expect(BigInt(String((await child.heard("held")).token))).toBeGreaterThan(token);
    await expectSilentExit(child);
  },
);

test("a process that awaits confirmed() while in doubt stays alive until the lease is confirmed", async () => {
  const timing = { ttlMs: 3_000, renewEveryMs: 200, clockErrorMs: 20, roundTripMs: 200 };
  const file = join(processes.folder(), "tenure.db");
  const child = startIdleProcess({ file, scenario: "confirm", timing });
  await child.heard("held");
  const locker = processes.start(LOCKER, { file });
  locker.say({ do: "lock" });
  await child.heard("doubt");
  locker.say({ do: "unlock" });
  await child.heard("confirmed");
  await expectSilentExit(child);
});

test("a process that iterates over watch() stays alive until it leaves the loop", async () => {
  const file = join(processes.folder(), "tenure.db");
  const holder = await puppet(processes, file);
  const child = startIdleProcess({ file, scenario: "watch" });
  await child.heard("watching");
  await holder.acquire("elsewhere", TIMING);
  await untilRenewed(file, 1, child);
  expect({ exited: child.hasExited, errors: child.errors }).toEqual({ exited: false, errors: "" });
  await holder.acquire("settlement", TIMING);
  await child.heard("seen");
  await expectSilentExit(child);
});

test("a process that iterates over watch() stays alive also while it holds a lease", async () => {
  const file = join(processes.folder(), "tenure.db");
  const holder = await puppet(processes, file);
  const child = startIdleProcess({ file, scenario: "watch", holds: true });
  await child.heard("watching");
  // Longer than the pause between two checks of the file.
  await sleep(1_000);
  expect({ exited: child.hasExited, errors: child.errors }).toEqual({ exited: false, errors: "" });
  await holder.acquire("settlement", LASTING);
  await child.heard("seen");
  await expectSilentExit(child);
});

test("the loss of an unused lease causes no unhandled rejection and no warning", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = startIdleProcess({ file, scenario: "lose" });
  await child.heard("lost");
  await expectSilentExit(child);
});
