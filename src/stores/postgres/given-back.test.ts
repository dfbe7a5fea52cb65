// Goal: what was given back lately is given back once more behind a failover, until it is answered,
// and never without one. Method: requests that are counted; the failover itself is in
// test/stores/postgres/hosts.test.ts.
import { expect, test } from "vitest";
import { RecentlyGivenBack } from "./given-back.ts";

function world(): {
  readonly sent: string[];
  readonly given: RecentlyGivenBack;
  add(what: string, now: number): void;
  isDown: boolean;
} {
  const given = new RecentlyGivenBack();
  const made = {
    sent: [] as string[],
    given,
    isDown: false,
    add: (what: string, now: number) =>
      given.add(
        what,
        async () => {
          made.sent.push(what);
          if (made.isDown) throw new Error("down");
        },
        now,
      ),
  };
  return made;
}

test("without a failover nothing is sent; after one, each release is repeated once", async () => {
  const { given, add, sent } = world();
  for (const what of ["a", "b", "a"]) add(what, 0);
  await given.giveBackAgain(100);
  expect(sent).toEqual([]);
  given.doubt(10);
  await given.giveBackAgain(100);
  expect(sent).toEqual(["b", "a"]);
  await given.giveBackAgain(100);
  given.doubt(20);
  await given.giveBackAgain(100);
  expect(sent).toHaveLength(2);
});

test("a release that is not answered is repeated with the next renewal, and not while it is in flight", async () => {
  const made = world();
  made.add("a", 0);
  made.isDown = true;
  made.given.doubt(10);
  await Promise.all([made.given.giveBackAgain(100), made.given.giveBackAgain(100)]);
  expect(made.sent).toEqual(["a"]);
  made.isDown = false;
  await made.given.giveBackAgain(100);
  await made.given.giveBackAgain(100);
  expect(made.sent).toEqual(["a", "a"]);
});

test("only the newest thousand releases of the last minute are repeated", async () => {
  const { given, add, sent } = world();
  add("old", 0);
  for (let index = 0; index < 1_000; index += 1) add(`${index}`, 1_000);
  given.doubt(61_000);
  await given.giveBackAgain(100);
  expect(sent).toHaveLength(1_000);
  expect(sent).not.toContain("old");
  add("a", 70_000);
  given.doubt(130_001);
  await given.giveBackAgain(100);
  expect(sent).toHaveLength(1_000);
});
