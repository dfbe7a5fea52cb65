// Goal: the safety rows and the rows of held locks count what they say they count. Method: writes, grants and rounds with known
// outcomes go through the functions that count them; the real trials are those of `npm run bench:peers`.
import { describe, expect, test } from "vitest";
import { rowsOf as heldRows, type Tally } from "../../bench/compare/held.ts";
import { WrittenResource } from "../../bench/compare/late-writes.ts";
import { verdict } from "../../bench/compare/rising.ts";
import { type Pause, rowsOf as stoppedRows } from "../../bench/compare/stopped.ts";

describe("a late write", () => {
  const written = (isGuarded: boolean): WrittenResource => new WrittenResource("x", { isGuarded });

  test("is one of the first that is taken behind one of the second", () => {
    const resource = written(false);
    for (const by of ["first", "second", "first"] as const) resource.write(by);
    expect(resource.lateWrites).toBe(1);
  });

  test("is none before the second has written, nor where nobody came second", () => {
    const followed = written(false);
    for (const by of ["first", "first", "second"] as const) followed.write(by);
    expect(followed.lateWrites).toBe(0);
    const alone = written(false);
    for (const by of ["first", "first"] as const) alone.write(by);
    expect(alone.lateWrites).toBe(0);
  });

  test("is refused by the guard where the second's token is higher, and then not counted", () => {
    const resource = written(true);
    resource.write("first", "9");
    resource.write("second", "10");
    resource.write("first", "9");
    expect(resource.lateWrites).toBe(0);
  });

  test("is counted behind a guard, too, when the token does not help", () => {
    const resource = written(true);
    resource.write("second", "10");
    resource.write("first", "10");
    expect(resource.lateWrites).toBe(1);
  });

  test("without a token is not a refused one", () => {
    expect(() => written(true).write("first")).toThrow("sent no token");
  });
});

describe("rows of pauses", () => {
  const pause = (more: Partial<Pause>): Pause => ({
    ...{ lateWrites: 0, wasFollowed: true, saysHeld: false, ...more },
  });

  test("late writes, and what the library said after the pause", () => {
    const pauses = [pause({ lateWrites: 1, saysHeld: true }), pause({ saysHeld: true }), pause({})];
    const [late, says] = stoppedRows({ name: "peer", isOurs: false }, pauses);
    expect(late).toEqual({ what: "peer: late writes accepted of 3 pauses", measured: "1" });
    expect(says?.measured).toBe("2 of 3");
  });

  test("a pause in which nobody came second is told apart", () => {
    const rows = (pauses: Pause[], isOurs: boolean): unknown =>
      stoppedRows({ name: "it", isOurs }, pauses)[0];
    const alone = pause({ wasFollowed: false });
    expect(rows([alone, alone], false)).toMatchObject({
      measured: expect.stringMatching(/^0: nobody else got the lock/),
    });
    expect(rows([alone, pause({})], true)).toMatchObject({
      ...{ measured: expect.stringMatching(/^0; in 1 of them nobody/), ok: true },
    });
    // Ours has then proved nothing.
    expect(rows([alone], true)).toMatchObject({ ok: false });
  });
});

describe("what a library gives out with its grants", () => {
  test("numbers are compared as numbers, other values as text", () => {
    expect(verdict([9n, 10n, 11n], "lease.token")).toBe("yes: lease.token, 2 of 2 times higher");
    expect(verdict(["9", "10", "11"], "id")).toBe("yes: id, 2 of 2 times higher");
    expect(verdict(["b", "a", "c"], "value")).toBe("no: value, 1 of 2 times higher");
  });

  test("an equal value is not higher, and none is none", () => {
    expect(verdict([4n, 4n], "token")).toBe("no: token, 0 of 1 times higher");
    expect(verdict([undefined, null])).toBe("no: it gives out none");
  });
});

describe("rows of held locks", () => {
  const tally = (name: string, kind: "ours" | "peer", cpu: number[], requests?: number): Tally => ({
    entrant: { name, kind },
    found: cpu.map((cpuMs) => ({ cpuMs, rssMB: 50, lost: 0, requests })),
    failure: undefined,
  });

  test("the median of the rounds with their spread; a single round without", () => {
    const [ours] = heldRows("10 locks", [tally("tenure", "ours", [300, 100, 200], 7)]);
    expect(ours?.measured).toBe("7 (7-7) requests, 200 (100-300) ms of CPU, 50 (50-50) MB, 0 lost");
    const [once] = heldRows("10 locks", [tally("tenure", "ours", [300])]);
    expect(once?.measured).toBe("300 ms of CPU, 50 MB, 0 lost");
  });

  test("a peer is compared by the medians, and one lost in any round misses the target", () => {
    const ours = tally("tenure", "ours", [100, 900, 110]);
    const [, peer] = heldRows("10 locks", [ours, tally("peer", "peer", [120, 130, 10])]);
    expect(peer).toMatchObject({ target: "tenure needs no more", ok: true });
    const lost = { ...ours, found: ours.found.map((each, round) => ({ ...each, lost: round })) };
    expect(heldRows("10 locks", [lost])[0]).toMatchObject({ ok: false });
  });

  test("who failed in a round is a row that says so", () => {
    const failed = { ...tally("peer", "peer", [1]), failure: "failed: busy" };
    expect(heldRows("10 locks", [failed])).toEqual([
      { what: "10 locks: peer", measured: "failed: busy" },
    ]);
  });
});
