// Goal: the line of callers in this process: one at a time, in order, and whoever leaves it leaves no gap. Method: the
// class alone, with promises and abort signals.
import { expect, test } from "vitest";
import { outcome } from "../../test/support/holder/holder-world.ts";
import { Turns } from "./turns.ts";

const never = new AbortController().signal;

test("turns on one resource come one at a time and in order", async () => {
  const turns = new Turns();
  await turns.take("a", never);
  const [second, third] = [turns.take("a", never), turns.take("a", never)];
  expect(await outcome(second)).toBe("pending");
  turns.end("a");
  await second;
  expect(await outcome(third)).toBe("pending");
  turns.end("a");
  await third;
  turns.end("a");
  expect(turns.tryTake("a")).toBe(true);
});

test("resources do not wait for each other", async () => {
  const turns = new Turns();
  await turns.take("a", never);
  expect(turns.tryTake("a")).toBe(false);
  expect(turns.tryTake("b")).toBe(true);
});

test("whoever leaves the line rejects with the signal's reason, and the next moves up", async () => {
  const turns = new Turns();
  turns.tryTake("a");
  const leaving = new AbortController();
  const second = turns.take("a", leaving.signal);
  const third = turns.take("a", never);
  leaving.abort("gone");
  expect(await outcome(second)).toEqual({ error: "gone" });
  turns.end("a");
  await third;
  turns.end("a");
  expect(turns.tryTake("a")).toBe(true);
});

test("an abort after one's turn has come changes nothing", async () => {
  const turns = new Turns();
  turns.tryTake("a");
  const late = new AbortController();
  const second = turns.take("a", late.signal);
  const third = turns.take("a", never);
  turns.end("a");
  await second;
  late.abort("too late");
  expect(await outcome(third)).toBe("pending");
  turns.end("a");
  await third;
});
