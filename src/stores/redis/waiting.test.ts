// Goal: one who waits is not kept from looking by a subscription that nobody confirms, and looks at once when it is confirmed
// late. Method: channels and looks that are functions, on a clock by hand; found by the simulator.
import fc from "fast-check";
import { expect, test } from "vitest";
import { hostileText } from "../../../test/support/stores/hostile.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import type { Channels, Listener } from "./channels.ts";
import { type Look, untilFree } from "./waiting.ts";

function waiter(looks: readonly number[]): {
  readonly clock: ManualClock;
  readonly state: { woken: boolean; looked: number };
  readonly confirm: () => void;
} {
  const clock = new ManualClock();
  const state = { woken: false, looked: 0 };
  let confirm = (): void => undefined;
  let isConfirmed = false;
  const listen = (): Promise<() => void> =>
    new Promise((resolve) => {
      confirm = () => {
        isConfirmed = true;
        resolve(() => undefined);
      };
    });
  const look = async (): Promise<Look> => {
    state.looked += 1;
    return { waitMs: looks[state.looked - 1] ?? 0, isQueued: true };
  };
  const { signal } = new AbortController();
  const wait = { channels: { turn: "t", resource: "c" }, attempt: "mine", signal, look };
  const channels = { listen, hears: () => isConfirmed } as unknown as Channels;
  void untilFree(channels, clock, wait).then(() => {
    state.woken = true;
  });
  return { clock, state, confirm: () => confirm() };
}

test("a subscription that nobody confirms: it looks by the clock, every second", async () => {
  const { clock, state } = waiter([60_000, 60_000, 0]);
  await clock.advance(999);
  expect(state.looked).toBe(0);
  await clock.advance(1);
  expect(state.looked).toBe(1);
  await clock.advance(2_000);
  expect(state).toEqual({ looked: 3, woken: true });
});

test("one that is confirmed late: it looks at once, and then rarely", async () => {
  const { clock, state, confirm } = waiter([60_000, 60_000, 0]);
  await clock.advance(1_500);
  confirm();
  await clock.advance(1);
  expect(state.looked).toBe(2);
  await clock.advance(4_900);
  expect(state).toEqual({ looked: 2, woken: false });
  await clock.advance(200);
  expect(state).toEqual({ looked: 3, woken: true });
});

test("one that cannot be had now: it looks every second", async () => {
  const clock = new ManualClock();
  let looked = 0;
  const look = async (): Promise<Look> => {
    looked += 1;
    return { waitMs: 60_000, isQueued: true };
  };
  const channels = { listen: async () => () => undefined, hears: () => false };
  const { signal } = new AbortController();
  const wait = { channels: { turn: "t", resource: "c" }, attempt: "mine", signal, look };
  void untilFree(channels as unknown as Channels, clock, wait);
  await clock.advance(2_500);
  expect(looked).toBe(3);
});

test("S8: after any messages, the waiter has asked for the grant or checks within five seconds", async () => {
  const valid = fc.constantFrom("held 4000", "free", "free mine", "free other", "probe");
  await fc.assert(
    fc.asyncProperty(fc.array(hostileText(valid), { maxLength: 8 }), async (messages) => {
      const clock = new ManualClock();
      let looked = 0;
      let put: Listener = () => undefined;
      const look = async (): Promise<Look> => {
        looked += 1;
        return { waitMs: looked === 1 ? 60_000 : 0, isQueued: true };
      };
      const listen = async (_name: string, listener: Listener): Promise<() => void> => {
        put = listener;
        return () => undefined;
      };
      const channels = { listen, hears: () => true } as unknown as Channels;
      const { signal } = new AbortController();
      const wait = { channels: { turn: "t", resource: "c" }, attempt: "mine", signal, look };
      let outcome: unknown;
      untilFree(channels, clock, wait).then(
        () => {
          outcome = "asks";
        },
        (error: unknown) => {
          outcome = error;
        },
      );
      await clock.advance(0);
      for (const message of messages) put(message, "t");
      await clock.advance(5_000);
      expect(outcome).toBe("asks");
    }),
    { numRuns: 300 },
  );
});
