// Goal: local callers take turns on a resource one at a time and in order, and a caller that gives
// up does not block the others. Method: the class alone, with promises and abort signals.
import { expect, test } from "vitest";
import { outcome } from "../../test/support/holder/holder-world.ts";
import { LocalQueue } from "./local-queue.ts";

const never = new AbortController().signal;

test("callers of one resource take turns, one at a time and in order", async () => {
  const queue = new LocalQueue();
  await queue.enter("a", never);
  const [second, third] = [queue.enter("a", never), queue.enter("a", never)];
  expect(await outcome(second)).toBe("pending");
  queue.leave("a");
  await second;
  expect(await outcome(third)).toBe("pending");
  queue.leave("a");
  await third;
  queue.leave("a");
  expect(queue.tryEnter("a")).toBe(true);
});

test("resources do not wait for each other", async () => {
  const queue = new LocalQueue();
  await queue.enter("a", never);
  expect(queue.tryEnter("a")).toBe(false);
  expect(queue.tryEnter("b")).toBe(true);
});

test("an aborted caller rejects with the signal's reason, and the next one moves up", async () => {
  const queue = new LocalQueue();
  queue.tryEnter("a");
  const leaving = new AbortController();
  const second = queue.enter("a", leaving.signal);
  const third = queue.enter("a", never);
  leaving.abort("gone");
  expect(await outcome(second)).toEqual({ error: "gone" });
  queue.leave("a");
  await third;
  queue.leave("a");
  expect(queue.tryEnter("a")).toBe(true);
});

test("an abort after the caller's turn has begun changes nothing", async () => {
  const queue = new LocalQueue();
  queue.tryEnter("a");
  const late = new AbortController();
  const second = queue.enter("a", late.signal);
  const third = queue.enter("a", never);
  queue.leave("a");
  await second;
  late.abort("too late");
  expect(await outcome(third)).toBe("pending");
  queue.leave("a");
  await third;
});
