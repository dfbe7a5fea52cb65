// Goal: concurrent requests share a message, and each still gets its own answer within its own
// limit. Method: a backend of two functions.

import { expect, test } from "vitest";
import { InvalidArgumentError } from "../../core/errors.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { Batches } from "./batches.ts";

type Many = (requests: readonly string[]) => Promise<readonly (string | undefined)[]>;

function setUp(many: Many = async (all) => all.map((each) => `${each}!`)) {
  const clock = new ManualClock();
  const asked: string[] = [];
  const batches = new Batches<string, string>({
    clock,
    toKey: (request) => request,
    one: async (request, limitMs, again) => {
      asked.push(`${request} ${limitMs}${again ? " again" : ""}`);
      return `${request}!`;
    },
    many: (requests, limitMs) => {
      asked.push(`${requests.join("+")} ${limitMs}`);
      return many(requests);
    },
    isRejection: (error) => error instanceof InvalidArgumentError,
  });
  return { clock, asked, batches };
}

async function all(clock: ManualClock, answers: readonly Promise<string>[]): Promise<string[]> {
  const settled = Promise.all(answers);
  await clock.advance(1);
  return settled;
}

test("the first request is sent at once, later ones together, and each gets its own answer", async () => {
  const { clock, asked, batches } = setUp();
  const answers = ["a", "b", "c"].map((request) => batches.ask(request, 100));
  expect(asked).toEqual(["a 100"]);
  expect(await all(clock, answers)).toEqual(["a!", "b!", "c!"]);
  expect(asked).toEqual(["a 100", "b+c 100"]);
  expect(await batches.ask("d", 100)).toBe("d!");
});

test("a hundred requests make several batches, each with the shortest limit of its requests", async () => {
  const { clock, asked, batches } = setUp();
  const names = Array.from({ length: 100 }, (_, index) => `n${index}`);
  const answers = names.map((name, index) => batches.ask(name, index === 5 ? 70 : 100));
  expect(await all(clock, answers)).toEqual(names.map((name) => `${name}!`));
  const sizes = asked.map((text) => text.split("+").length);
  expect(sizes).toEqual([1, 16, 16, 16, 16, 16, 16, 3]);
  expect(asked[1]).toMatch(/ 70$/);
  expect(asked[2]).toMatch(/ 100$/);
});

test("a request that the batch does not decide is sent alone, with the remaining time", async () => {
  let clock: ManualClock | undefined;
  const { asked, batches, ...rest } = setUp(async () => {
    await clock?.advance(30);
    return ["b!", undefined, "d!"];
  });
  clock = rest.clock;
  const answers = ["a", "b", "c", "d"].map((request) => batches.ask(request, 100));
  expect(await all(clock, answers)).toEqual(["a!", "b!", "c!", "d!"]);
  expect(asked.slice(0, 2)).toEqual(["a 100", "b+c+d 100"]);
  const [name, leftMs, again] = (asked[2] ?? "").split(" ");
  expect([name, again]).toEqual(["c", "again"]);
  expect(Number(leftMs)).toBeLessThanOrEqual(70);
});

test("a lost answer fails every request of the batch, and nothing is sent twice", async () => {
  const { clock, asked, batches } = setUp(async () => {
    throw new Error("gone");
  });
  const answers = ["a", "b", "c"].map((request) =>
    batches.ask(request, 100).catch((error: Error) => error.message),
  );
  expect(await all(clock, answers)).toEqual(["a!", "gone", "gone"]);
  expect(asked).toEqual(["a 100", "b+c 100"]);
  expect(await batches.ask("d", 100)).toBe("d!");
});

test("the requests of a rejected batch are sent one by one", async () => {
  const { clock, batches } = setUp(async () => {
    throw new InvalidArgumentError("no");
  });
  const answers = ["a", "b", "c"].map((request) => batches.ask(request, 100));
  expect(await all(clock, answers)).toEqual(["a!", "b!", "c!"]);
});

test("two requests with the same key never share a message", async () => {
  const { clock, asked, batches } = setUp();
  const answers = ["a", "b", "c", "b", "d"].map((request) => batches.ask(request, 100));
  expect(await all(clock, answers)).toEqual(["a!", "b!", "c!", "b!", "d!"]);
  expect(asked).toEqual(["a 100", "b+c 100", "b+d 100"]);
});
