// Goal: a subscription without patience learns of every report of the kernel at once, one with
// patience of few of them, and neither misses a commit. Method: a fake file that counts how often
// it is checked, on a manual clock.
import { expect, test } from "vitest";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Commits, IDLE_CHECK_MS } from "./commits.ts";

class FakeFile {
  readonly clock = new ManualClock();
  readonly commits: Commits;
  checks = 0;
  /** Another process recovers the file. */
  isUnreadable = false;
  watchers = 0;
  #version = 1;
  #report: () => void = () => undefined;

  constructor() {
    const disk: Disk = {
      identityOf: () => "the same",
      realPathOf: (file) => file,
      watch: (_file, onReport) => {
        this.watchers += 1;
        this.#report = onReport;
        return {
          close: () => {
            this.watchers -= 1;
            this.#report = () => undefined;
          },
        };
      },
    };
    const get = (): { data_version: number } => {
      this.checks += 1;
      if (this.isUnreadable) throw new Error("database is locked");
      return { data_version: this.#version };
    };
    const connection = {
      prepare: () => ({ get }) as unknown as Statement,
    } as unknown as Connection;
    this.commits = new Commits({ connection, file: "fake", disk, clock: this.clock });
  }

  /** Another process commits. */
  commit(): void {
    this.show();
    this.write();
  }

  /** It has written, and the kernel reports it. The flush takes a moment. */
  write(): void {
    this.#report();
  }

  /** The commit becomes visible. */
  show(): void {
    this.#version += 1;
  }

  /** Waits as the store does, and counts the notifications. */
  join(patienceMs: number): {
    readonly notified: () => number;
    readonly become: (ms: number) => void;
  } {
    const subscription = this.commits.subscribe();
    let notified = 0;
    subscription.patienceMs = patienceMs;
    const wait = async (): Promise<void> => {
      for (;;) {
        await subscription.next(Number.POSITIVE_INFINITY, new AbortController().signal);
        notified += 1;
      }
    };
    void wait();
    return {
      notified: () => notified,
      become: (ms) => {
        subscription.patienceMs = ms;
      },
    };
  }

  /** Until the checks after the subscription are over. */
  async settle(): Promise<void> {
    await this.clock.advance(1_000);
    this.checks = 0;
  }
}

test("L2: a subscription without patience is notified of a commit at once", async () => {
  const file = new FakeFile();
  const next = file.join(0);
  await file.settle();
  file.commit();
  await file.clock.advance(0);
  expect(next.notified()).toBe(1);
});

test("L2: a commit that the kernel does not report is noticed after IDLE_CHECK_MS", async () => {
  const file = new FakeFile();
  const first = file.join(0);
  await file.clock.advance(1_000);
  file.show();
  await file.clock.advance(IDLE_CHECK_MS);
  expect(first.notified()).toBe(1);
});

test("a patient subscription checks once for many commits, and does not watch the file in between", async () => {
  const file = new FakeFile();
  const last = file.join(50);
  await file.settle();
  file.commit();
  expect(file.watchers).toBe(0);
  for (let commits = 1; commits < 25; commits += 1) {
    await file.clock.advance(1.9);
    file.commit();
  }
  expect({ checks: file.checks, notified: last.notified() }).toEqual({ checks: 0, notified: 0 });
  await file.clock.advance(10);
  expect({ checks: file.checks, notified: last.notified() }).toEqual({ checks: 1, notified: 1 });
  expect(file.watchers).toBe(1);
});

test("L2: a commit that was written while the file was not watched, and is visible later, is not missed", async () => {
  const file = new FakeFile();
  const last = file.join(50);
  await file.settle();
  file.write();
  await file.clock.advance(60);
  expect({ checks: file.checks, watchers: file.watchers }).toEqual({ checks: 1, watchers: 1 });
  file.show();
  await file.clock.advance(100);
  expect(last.notified()).toBe(1);
});

test("L2: a subscription that loses its patience does not wait for the check that was planned before", async () => {
  const file = new FakeFile();
  const one = file.join(200);
  await file.settle();
  file.commit();
  await file.clock.advance(10);
  one.become(0);
  await file.clock.advance(0);
  expect(one.notified()).toBe(1);
});

test("the least patient of two subscriptions decides", async () => {
  const file = new FakeFile();
  const [last, next] = [file.join(200), file.join(0)];
  await file.settle();
  file.commit();
  await file.clock.advance(0);
  expect([last.notified(), next.notified()]).toEqual([1, 1]);
});

test("a new subscription without patience watches the file again at once", async () => {
  const file = new FakeFile();
  file.join(200);
  await file.settle();
  file.commit();
  expect(file.watchers).toBe(0);
  const next = file.join(0);
  expect(file.watchers).toBe(1);
  await file.clock.advance(0);
  expect(next.notified()).toBe(1);
});

test("S8: a file that cannot be read for a while throws nothing from a timer, and no commit is missed", async () => {
  const file = new FakeFile();
  file.isUnreadable = true;
  const one = file.join(0);
  await file.settle();
  const before = one.notified();
  file.isUnreadable = false;
  file.commit();
  await file.clock.advance(IDLE_CHECK_MS);
  expect(one.notified()).toBeGreaterThan(before);
});
