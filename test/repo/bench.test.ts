// Goal: a row of the benchmarks reports what was measured, and a library that fails does not affect
// the others. Method: contestants with known values go through the real comparison.
import { afterEach, describe, expect, test, vi } from "vitest";
import {
  type Comparison,
  type Contestant,
  compare,
  type Figure,
  type Measured,
  milliseconds,
  perSecond,
} from "../../bench/comparison.ts";
import { buildPeers } from "../../bench/peers/build.ts";
import { contendersOn } from "../../bench/peers/peers.ts";
import { drawBars } from "../../bench/pictures.ts";
import { formatSection, type Row, type Run, type Section } from "../../bench/results.ts";
import { newResource, withLockers } from "../../bench/workers.ts";

/** A contestant whose rounds have these values. */
function contestant(
  name: string,
  values: readonly Measured[string][],
  more: Partial<Contestant> = {},
): Contestant {
  const left = [...values];
  const kind = name === "tenure" ? "tenure" : "peer";
  const measure = async (): Promise<Measured> => ({ speed: left.shift() ?? Number.NaN });
  return { name, kind, measure, ...more };
}

function run(
  contestants: readonly Contestant[],
  figure: Figure,
  more: Partial<Comparison> = {},
): Promise<Section> {
  return compare({
    title: "a race",
    method: "",
    rounds: 3,
    figures: { speed: figure },
    contestants,
    ...more,
  });
}

function findRow({ rows }: Section, label: string): Row | undefined {
  return rows.find((row) => row.label === label);
}

describe("values by round", () => {
  const contestants = (): Contestant[] => [
    contestant("tenure", [10, 20, 30]),
    contestant("other", [5, 40, 10], { target: 1 }),
  ];

  test("ratios are taken within one round, and above 1 Tenure is better", async () => {
    const rates = await run(contestants(), perSecond);
    const ratio = "speed: ratio to other";
    expect(findRow(rates, ratio)).toMatchObject({
      measured: "2.00x",
      range: "0.50-3.00",
      ok: true,
    });
    const times = await run(contestants(), milliseconds);
    expect(findRow(times, ratio)).toMatchObject({ measured: "0.50x", ok: false });
  });

  test("a limit applies to Tenure's median only", async () => {
    const { rows } = await run(contestants(), { ...milliseconds, atMost: 19 });
    expect(rows.filter(({ target }) => target === "<= 19 ms")).toEqual([
      {
        label: "speed: tenure",
        measured: "20.00 ms",
        range: "10.00-30.00",
        target: "<= 19 ms",
        ok: false,
      },
    ]);
  });

  test("a peer that is ahead for a known reason gets a note instead of a verdict", async () => {
    const peer = contestant("other", [5, 5, 5], { target: 1, reason: "does less" });
    const section = await run([contestant("tenure", [4, 4, 4]), peer], perSecond);
    expect(findRow(section, "speed: ratio to other")).toEqual({
      label: "speed: ratio to other",
      measured: "0.80x",
      range: "0.80-0.80",
      note: "does less",
    });
  });

  test("differences within the noise do not count, and a ratio does not include the noise", async () => {
    const figure: Figure = { ...milliseconds, noise: 40 };
    const measureRatio = async (tenure: number, other: number): Promise<string | undefined> => {
      const both = [contestant("tenure", [tenure]), contestant("other", [other])];
      return findRow(await run(both, figure, { rounds: 1 }), "speed: ratio to other")?.measured;
    };
    expect(await measureRatio(70, 35)).toBe("1.00x");
    expect(await measureRatio(60, 440)).toBe("20.00x");
    expect(await measureRatio(30, 440)).toBe("Tenure needs none");
  });

  test("each contestant is measured first in turn", async () => {
    const order: string[] = [];
    const all = ["tenure", "b", "c"].map((name) =>
      contestant(name, [], {
        measure: async () => {
          order.push(name.slice(0, 1));
          return { speed: 1 };
        },
      }),
    );
    await run(all, milliseconds, { rounds: 4 });
    expect(order.join("")).toBe("tbcbctctbtbc");
  });
});

describe("single times", () => {
  const contestants = (): Contestant[] => [
    contestant("tenure", [
      [1, 2],
      [30, 40],
    ]),
    contestant("other", [
      [8, 8],
      [8, 8],
    ]),
  ];

  test("p50 and worst case are those of all rounds together", async () => {
    const { rows } = await run(contestants(), milliseconds, { rounds: 2 });
    expect(rows.map(({ label, measured }) => `${label}: ${measured}`)).toEqual([
      "p50: tenure: 16.00 ms",
      "p50: other: 8.00 ms",
      "p50: ratio to other: 0.50x",
      "worst of 4: tenure: 40.00 ms",
      "worst of 4: other: 8.00 ms",
      "worst of 4: ratio to other: 0.20x",
    ]);
  });

  test("a limit applies to the worst case, and ratios without a target are for information", async () => {
    const { rows } = await run(contestants(), { ...milliseconds, atMost: 39 }, { rounds: 2 });
    expect(rows.filter(({ ok }) => ok !== undefined)).toEqual([
      {
        label: "worst of 4: tenure",
        measured: "40.00 ms",
        range: "1.00-40.00",
        target: "<= 39 ms",
        ok: false,
      },
    ]);
  });
});

describe("failures", () => {
  const failing = (name: string): Contestant =>
    contestant(name, [], { measure: () => Promise.reject(new Error("cannot lock\nat all")) });

  test("a peer that fails becomes a row with its message, and the others are measured", async () => {
    const section = await run([failing("broken"), contestant("tenure", [1, 2, 3])], perSecond);
    expect(findRow(section, "broken")).toEqual({
      label: "broken",
      measured: "failed: cannot lock",
    });
    expect(findRow(section, "speed: tenure")?.measured).toBe("2 /s");
  });

  test("if Tenure fails, the run fails", async () => {
    const section = await run([failing("tenure"), contestant("other", [1, 1, 1])], perSecond);
    expect(findRow(section, "tenure")).toMatchObject({ ok: false });
  });

  test("a worker that ends is reported with its own error, without local paths", async () => {
    const shown = vi.spyOn(process.stderr, "write").mockReturnValue(true);
    const target = { library: "none", url: "" };
    const failure = await withLockers(target, { count: 1 }, async () => undefined).catch(
      (error) => error,
    );
    expect(shown).toHaveBeenCalled();
    shown.mockRestore();
    expect(failure.message).toMatch(
      /^Error.*Cannot find module 'bench\/peers\/libraries\/none.mjs'/,
    );
  });
});

describe("peers in other languages", () => {
  afterEach(() => {
    vi.unstubAllEnvs();
    vi.restoreAllMocks();
  });

  test("a worker gets its settings as argument, and orders and answers are lines", async () => {
    const program = `
      console.log(JSON.stringify("ready"));
      const { library } = JSON.parse(process.argv.at(-1));
      require("node:readline").createInterface({ input: process.stdin }).on("line", (line) =>
        console.log(JSON.stringify({ library, order: JSON.parse(line) })));`;
    const command = [process.execPath, "-e", program, "--"];
    const target = { library: "other", url: "", command };
    const answers = await withLockers(target, { count: 2 }, (workers) =>
      Promise.all(workers.map((worker, index) => worker.ask({ lock: `a ${index}` }))),
    );
    expect(answers).toEqual([
      { library: "other", order: { lock: "a 0" } },
      { library: "other", order: { lock: "a 1" } },
    ]);
  });

  test("without their tools they are skipped, and the reason is printed", async () => {
    vi.stubEnv("PATH", "/none");
    const printed = vi.spyOn(console, "error").mockReturnValue(undefined);
    const commands = await buildPeers();
    expect(commands.size).toBe(0);
    expect(printed.mock.calls.map(([line]) => line)).toEqual([
      expect.stringMatching(/skipped: redislock.*go not found in PATH/),
      expect.stringMatching(/skipped: Redisson.*mvn and java and javac not found in PATH/),
    ]);
    const names = contendersOn("zookeeper", "zookeeper://a", true, commands).map((c) => c.name);
    expect(names).toEqual(["tenure"]);
  });
});

test("libraries that are measured at the same time do not get the same lock", () => {
  expect(newResource()).not.toBe(newResource());
});

test("a table shows the values of an earlier run next to the new ones", () => {
  const section = (measured: string): Section => ({
    title: "Pairs",
    method: "",
    rows: [{ label: "tenure", measured }],
  });
  const earlier: Run = {
    command: "bench",
    startedAt: "",
    machine: "",
    versions: [],
    sections: [section("5 /s")],
  };
  expect(formatSection(section("7 /s"), earlier)).toMatch(/tenure +7 \/s +earlier: 5 \/s$/);
  expect(formatSection(section("7 /s"))).not.toContain("earlier");
});

test("bars start at zero and show their value", () => {
  const unit = "/s";
  const picture = drawBars("pairs", "more is better", [
    { figure: "pairs", unit, name: "tenure", kind: "tenure", values: [100, 200, 300] },
    { figure: "pairs", unit, name: "a <peer>", kind: "peer", values: [50] },
  ]);
  const widths = [...picture.matchAll(/<rect[^>]* width="([\d.]+)"/g)].map(([, width]) =>
    Number(width),
  );
  expect(widths).toHaveLength(2);
  expect((widths[0] ?? 0) / (widths[1] ?? 1)).toBeCloseTo(4, 1);
  expect(picture).toContain(">200 /s</text>");
  expect(picture).toContain(">50.0 /s</text>");
  expect(picture).toContain("a &lt;peer&gt;");
  // Each colour scheme has its own background.
  expect(picture.match(/\.paper\{fill:#\w+\}/g)).toHaveLength(2);
});
