// Goal: the safety rows of the comparison count what they say. Method: writes, pauses and grants
// with known outcomes go through the functions that count them; `npm run bench:peers` runs the real
// trials.
import { describe, expect, test } from "vitest";
import { type Pause, toRows, WrittenResource } from "../../bench/peers/stopped.ts";
import { judge } from "../../bench/peers/tokens.ts";

describe("a late write", () => {
  test("is a write of the first process that is accepted after one of the second", () => {
    const resource = new WrittenResource("x", false);
    for (const by of ["first", "second", "first"] as const) resource.write(by);
    expect(resource.lateWrites).toBe(1);
  });

  test("cannot happen before the second process has written, or if there is no second", () => {
    const followed = new WrittenResource("x", false);
    for (const by of ["first", "first", "second"] as const) followed.write(by);
    expect(followed.lateWrites).toBe(0);
    const alone = new WrittenResource("x", false);
    for (const by of ["first", "first"] as const) alone.write(by);
    expect(alone.lateWrites).toBe(0);
  });

  test("is not counted if the guard refuses it because the second token is higher", () => {
    const resource = new WrittenResource("x", true);
    resource.write("first", "9");
    resource.write("second", "10");
    resource.write("first", "9");
    expect(resource.lateWrites).toBe(0);
  });

  test("is counted if the guard admits it because the tokens are equal", () => {
    const resource = new WrittenResource("x", true);
    resource.write("second", "10");
    resource.write("first", "10");
    expect(resource.lateWrites).toBe(1);
  });

  test("without a token is an error, not a refused write", () => {
    expect(() => new WrittenResource("x", true).write("first")).toThrow("sent no token");
  });
});

describe("rows of pauses", () => {
  const followed: Pause = { lateWrites: 0, wasFollowed: true, saysHeld: false };
  const alone: Pause = { ...followed, wasFollowed: false };

  test("count late writes, and what the library reported after the pause", () => {
    const pauses = [
      { ...followed, lateWrites: 1, saysHeld: true },
      { ...followed, saysHeld: true },
      followed,
    ];
    const [late, says] = toRows("peer", false, pauses);
    expect(late).toEqual({ label: "peer: late writes accepted", measured: "1 of 3" });
    expect(says?.measured).toBe("2 of 3");
  });

  test("report pauses in which no other process got the lock", () => {
    expect(toRows("peer", false, [alone, alone])[0]?.measured).toMatch(
      /^0 of 2: no other process got the lock/,
    );
    expect(toRows("tenure", true, [alone, followed])[0]).toMatchObject({
      measured: expect.stringMatching(/^0 of 2; in 1 of them no other process/),
      ok: true,
    });
  });

  test("miss the target if no other process ever got the lock", () => {
    expect(toRows("tenure", true, [alone])[0]).toMatchObject({ ok: false });
  });
});

describe("the tokens of a library", () => {
  test("are compared as numbers if they are numbers, otherwise as text", () => {
    expect(judge([9n, 10n, 11n], "lease.token")).toBe("yes: lease.token, 2 of 2 times higher");
    expect(judge(["9", "10", "11"], "id")).toBe("yes: id, 2 of 2 times higher");
    expect(judge(["b", "a", "c"], "value")).toBe("no: value, 1 of 2 times higher");
  });

  test("do not increase if they are equal or missing", () => {
    expect(judge([4n, 4n], "token")).toBe("no: token, 0 of 1 times higher");
    expect(judge([undefined, null])).toBe("no: it returns none");
  });
});
