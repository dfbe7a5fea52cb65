// Goal: whoever is next in line looks at every report of the kernel, whoever is far from its turn at few of them, and neither
// misses a commit. Method: a made-up file that counts the looks at it, on a manual clock.
import { expect, test } from "vitest";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection, Statement } from "../../clients/sqlite/driver.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Commits, IDLE_CHECK_MS } from "./commits.ts";

class MadeUpFile {
  readonly clock = new ManualClock();
  readonly waker: Commits;
  looks = 0;
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
      this.looks += 1;
      return { data_version: this.#version };
    };
    const connection = {
      prepare: () => ({ get }) as unknown as Statement,
    } as unknown as Connection;
    this.waker = new Commits({ connection, file: "made-up", disk, clock: this.clock });
  }

  /** Another process commits. */
  commit(): void {
    this.show();
    this.write();
  }

  /** It has written, and the kernel reports that; the flush takes a moment. */
  write(): void {
    this.#report();
  }

  /** What was written is visible. */
  show(): void {
    this.#version += 1;
  }

  /** Somebody who waits as the store does, and counts the changes that it was told. */
  join(patienceMs: number): { readonly told: () => number; readonly become: (ms: number) => void } {
    const subscription = this.waker.subscribe();
    let told = 0;
    subscription.patienceMs = patienceMs;
    const wait = async (): Promise<void> => {
      for (;;) {
        await subscription.next(Number.POSITIVE_INFINITY, new AbortController().signal);
        told += 1;
      }
    };
    void wait();
    return {
      told: () => told,
      become: (ms) => {
        subscription.patienceMs = ms;
      },
    };
  }

  /** Until the looks that a beginning brings are over. */
  async settle(): Promise<void> {
    await this.clock.advance(1_000);
    this.looks = 0;
  }
}

test("L2: the next in line is told of a commit at once", async () => {
  const file = new MadeUpFile();
  const next = file.join(0);
  await file.settle();
  file.commit();
  await file.clock.advance(0);
  expect(next.told()).toBe(1);
});

test("L2: a commit that the kernel does not report is noticed as soon as is said", async () => {
  const file = new MadeUpFile();
  const first = file.join(0);
  await file.clock.advance(1_000);
  file.show();
  await file.clock.advance(IDLE_CHECK_MS);
  expect(first.told()).toBe(1);
});

test("one far behind looks once for many commits, and stops listening meanwhile", async () => {
  const file = new MadeUpFile();
  const last = file.join(50);
  await file.settle();
  file.commit();
  expect(file.watchers).toBe(0);
  for (let commits = 1; commits < 25; commits += 1) {
    await file.clock.advance(1.9);
    file.commit();
  }
  expect({ looks: file.looks, told: last.told() }).toEqual({ looks: 0, told: 0 });
  await file.clock.advance(10);
  expect({ looks: file.looks, told: last.told() }).toEqual({ looks: 1, told: 1 });
  expect(file.watchers).toBe(1);
});

test("L2: what was written while it did not listen, and is visible later, is not missed", async () => {
  const file = new MadeUpFile();
  const last = file.join(50);
  await file.settle();
  file.write();
  await file.clock.advance(60);
  expect({ looks: file.looks, watchers: file.watchers }).toEqual({ looks: 1, watchers: 1 });
  file.show();
  await file.clock.advance(100);
  expect(last.told()).toBe(1);
});

test("L2: whoever becomes the next does not wait for the look that it had time for before", async () => {
  const file = new MadeUpFile();
  const one = file.join(200);
  await file.settle();
  file.commit();
  await file.clock.advance(10);
  one.become(0);
  await file.clock.advance(0);
  expect(one.told()).toBe(1);
});

test("with two in one process, the one that is next decides", async () => {
  const file = new MadeUpFile();
  const [last, next] = [file.join(200), file.join(0)];
  await file.settle();
  file.commit();
  await file.clock.advance(0);
  expect([last.told(), next.told()]).toEqual([1, 1]);
});

test("a newcomer listens at once, although the one before it does not for now", async () => {
  const file = new MadeUpFile();
  file.join(200);
  await file.settle();
  file.commit();
  expect(file.watchers).toBe(0);
  const next = file.join(0);
  expect(file.watchers).toBe(1);
  await file.clock.advance(0);
  expect(next.told()).toBe(1);
});
