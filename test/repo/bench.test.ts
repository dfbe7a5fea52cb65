// Goal: a published row or bar says what was measured, and one library that fails spoils nobody else's. Method: contestants with
// known values go through the real comparison, and the picture is read back.
import { expect, test, vi } from "vitest";
import {
  type Contestant,
  compare,
  milliseconds,
  perSecond,
} from "../../bench/compare/comparison.ts";
import { withWorkers } from "../../bench/compare/processes.ts";
import { bars } from "../../bench/pictures.ts";
import type { Section, Series } from "../../bench/support.ts";

function contestant(name: string, kind: Contestant["kind"], values: readonly number[]): Contestant {
  const left = [...values];
  return { name, kind, measure: async () => ({ figures: { speed: left.shift() ?? Number.NaN } }) };
}

async function compared(contestants: readonly Contestant[], isRate: boolean): Promise<Section> {
  const figures = { speed: isRate ? perSecond : milliseconds };
  const comparison = { title: "a race", method: "", figures, contestants };
  const [section] = await compare([comparison], { rounds: 3, quick: false, say: () => undefined });
  if (section === undefined) throw new Error("no section");
  return section;
}

function rowOf({ rows }: Section, words: string): Section["rows"][number] | undefined {
  return rows.find(({ what }) => what.includes(words));
}

test("ratios are those within one round, and turn round where less is better", async () => {
  const contestants = (): Contestant[] => [
    contestant("tenure", "ours", [10, 20, 30]),
    contestant("other", "peer", [5, 40, 10]),
  ];
  const rates = await compared(contestants(), true);
  expect(rowOf(rates, "times as good as other")).toMatchObject({ measured: "2.00x", ok: true });
  const times = await compared(contestants(), false);
  expect(rowOf(times, "times as good as other")).toMatchObject({ measured: "0.50x", ok: false });
});

test("a peer that fails is a row with its message; the others are measured", async () => {
  const broken: Contestant = {
    ...{ name: "broken", kind: "peer" },
    measure: () => Promise.reject(new Error("cannot lock\nat all")),
  };
  const ours = contestant("tenure", "ours", [1, 2, 3]);
  const section = await compared([broken, ours], true);
  expect(rowOf(section, "broken")).toEqual({ what: "broken", measured: "failed: cannot lock" });
  expect(rowOf(section, "speed: tenure")?.measured).toBe("2 /s");
});

test("if ours fails, the target is missed", async () => {
  const failing: Contestant = {
    ...{ name: "tenure", kind: "ours" },
    measure: () => Promise.reject(new Error("busy")),
  };
  const section = await compared([failing, contestant("other", "peer", [1, 1, 1])], true);
  expect(rowOf(section, "tenure")).toMatchObject({ measured: "failed: busy", ok: false });
});

test("libraries that are measured at the same time do not get the same lock", async () => {
  const place = { library: "none", url: "" };
  const resourceOf = (): Promise<string> => withWorkers(place, 0, async (_, resource) => resource);
  const [one, other] = await Promise.all([resourceOf(), resourceOf()]);
  expect(one).not.toBe(other);
});

test("a worker that ends by itself is told by its own words, without the machine's folders", async () => {
  const place = { library: "none", url: "" };
  const shown = vi.spyOn(process.stderr, "write").mockReturnValue(true);
  const failure = await withWorkers(place, 1, async () => undefined).catch((error) => error);
  expect(shown).toHaveBeenCalled();
  shown.mockRestore();
  expect(failure.message).toMatch(
    /^Error.*Cannot find module 'bench\/overlap\/libraries\/none.mjs'/,
  );
});

test("bars begin at zero, have their value beside them, and the floor is a line", () => {
  const series = (name: string, kind: Series["kind"], values: number[]): Series => ({
    ...{ figure: "pairs", unit: "/s", name, kind, values },
  });
  const picture = bars("pairs", [
    series("tenure", "ours", [100, 200, 300]),
    series("a <peer>", "peer", [50]),
    series("the floor", "floor", [400]),
  ]);
  const widths = [...picture.matchAll(/<rect[^>]* width="([\d.]+)"/g)].map(([, width]) =>
    Number(width),
  );
  expect(widths).toHaveLength(2);
  expect((widths[0] ?? 0) / (widths[1] ?? 1)).toBeCloseTo(4, 1);
  expect(picture).toContain(">200 /s</text>");
  expect(picture).toContain(">50.0 /s</text>");
  expect(picture).toContain("a &lt;peer&gt;");
  expect(picture).toContain("dashed: the floor, 400 /s");
  expect(picture).toContain("prefers-color-scheme:dark");
  // Text of either colour is read on paper of its own.
  expect(picture.match(/\.paper\{fill:#\w+\}/g)).toHaveLength(2);
  expect(picture).toContain('<rect class="paper" width="100%" height="100%"/>');
});
