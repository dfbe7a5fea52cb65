// Goal: the library neither keeps a process alive that is done, nor lets one go that waits, nor says anything on stderr.
// Method: workers without stdin, sockets or timers of their own; the test watches when and how they end.
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Child, crew } from "../support/process/process-children.ts";
import { hostMs, ms, peek, until } from "../support/process/process-file.ts";
import { puppet } from "../support/process/process-puppet.ts";

const LONER = new URL("./workers/loner.mjs", import.meta.url);
const LOCKER = new URL("./workers/locker.mjs", import.meta.url);
const TIMING = { ttlMs: 600, clockErrorMs: 10, roundTripMs: 50 };
/** For a lease that has to last until it is released, on a busy machine too. */
const LASTING = { ttlMs: 5_000, renewEveryMs: 300, clockErrorMs: 50, roundTripMs: 500 };
const processes = crew();

function loner(settings: object): Child {
  return processes.start(LONER, { timing: TIMING, ...settings }, { commands: false });
}

async function expectQuietEnd(child: Child): Promise<void> {
  expect(await child.exited).toEqual({ code: 0, signal: null });
  expect(child.errors).toBe("");
}

/** Lets the sessions of the file be renewed a few times: long after an idle event loop would have ended. */
async function untilRenewed(file: string, sessions: number, child: Child): Promise<void> {
  const look = peek(processes, file);
  const expiries = (): number[] =>
    look("SELECT expires_ms FROM session ORDER BY id").map((row) => Number(row.expires_ms));
  await until("the sessions are there", () => child.hasExited || expiries().length === sessions);
  const first = expiries();
  const renewed = (): boolean =>
    expiries().every((expiry, index) => expiry > (first[index] ?? 0) + 2 * TIMING.ttlMs);
  await until("they were renewed for two ttls", () => child.hasExited || renewed());
}

test("a process that holds a lease and has nothing else to do exits by itself with code 0, silently", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = loner({ file, plot: "hold", timing: { ttlMs: 10_000 } });
  const held = await child.heard("held");
  await expectQuietEnd(child);
  const tookMs = hostMs() - held.at;
  console.log(`      an idle holder exited ${ms(tookMs)} after its grant`);
  // Far below the renewal at 3.3 s: no timer held it back.
  expect(tookMs).toBeLessThan(2_000);
});

test("with keepProcessAlive a process that holds a lease stays alive and renews it", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = loner({ file, plot: "hold", keepProcessAlive: true });
  await child.heard("end");
  await untilRenewed(file, 1, child);
  expect(child.hasExited).toBe(false);
  expect(child.errors).toBe("");
});

test.each([
  ["for ever", undefined],
  ["with a limit", 30_000],
])(
  "a process that waits in acquire() %s stays alive, gets the lease and exits with code 0",
  async (_kind, waitMs) => {
    const file = join(processes.folder(), "tenure.db");
    const holder = await puppet(processes, file);
    const { token } = await holder.acquire("settlement", LASTING);
    const child = loner({ file, plot: "wait", waitMs, timing: LASTING });
    await untilRenewed(file, 2, child);
    expect({ exited: child.hasExited, errors: child.errors }).toEqual({
      exited: false,
      errors: "",
    });
    await holder.release("settlement");
    expect(BigInt(String((await child.heard("held")).token))).toBeGreaterThan(token);
    await expectQuietEnd(child);
  },
);

test("a process that awaits confirmed() while in doubt stays alive until the doubt is over", async () => {
  const timing = { ttlMs: 3_000, renewEveryMs: 200, clockErrorMs: 20, roundTripMs: 200 };
  const file = join(processes.folder(), "tenure.db");
  const child = loner({ file, plot: "settle", timing });
  await child.heard("held");
  const outsider = processes.start(LOCKER, { file });
  outsider.say({ do: "lock" });
  await child.heard("doubt");
  outsider.say({ do: "unlock" });
  await child.heard("settled");
  await expectQuietEnd(child);
});

test("a process that follows a resource with watch() stays alive until it has seen what it waits for", async () => {
  const file = join(processes.folder(), "tenure.db");
  const holder = await puppet(processes, file);
  const child = loner({ file, plot: "watch" });
  await child.heard("watching");
  await holder.acquire("elsewhere", TIMING);
  await untilRenewed(file, 1, child);
  expect({ exited: child.hasExited, errors: child.errors }).toEqual({ exited: false, errors: "" });
  await holder.acquire("settlement", TIMING);
  await child.heard("seen");
  await expectQuietEnd(child);
});

test("a lease that is lost while nobody looks advances no unhandled rejection and no warning", async () => {
  const file = join(processes.folder(), "tenure.db");
  const child = loner({ file, plot: "lose" });
  await child.heard("lost unseen");
  await expectQuietEnd(child);
});
