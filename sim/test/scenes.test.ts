// Goal: each scene has the result that its story describes: the plain lock fails and Tenure does
// not. Two plays are identical, and the page is complete, well-formed and self-contained. Method:
// play every scene and count; parse the page strictly; play the plain lock without faults to show
// that it is a fair comparison.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { SCENE_NAMES } from "../cli/definition.ts";
import { simHost } from "../host/sim-host.ts";
import { renderPage } from "../page/page.ts";
import { renderPictureFile } from "../page/picture-file.ts";
import { FIGURE_STYLE } from "../page/style.ts";
import { clockText, durationText } from "../scenes/clock-text.ts";
import { findGrants, findHolds } from "../scenes/holds.ts";
import { SCENES } from "../scenes/list.ts";
import type { Numbers } from "../scenes/measure.ts";
import { PlainLock } from "../scenes/plain-lock.ts";
import { type Played, playScene } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import type { Stage } from "../scenes/stage.ts";
import { toStory } from "../scenes/story.ts";
import type { Tale } from "../scenes/tale.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));

function sceneOf(name: string): Scene {
  const scene = SCENES.find((each) => each.name === name);
  if (scene === undefined) throw new Error(`There is no scene ${name}.`);
  return scene;
}

const play = (name: string): Promise<Played> => playScene(sceneOf(name), simHost);

async function numbersOf(name: string): Promise<readonly Numbers[]> {
  const { takes, unmet } = await play(name);
  expect(unmet).toEqual([]);
  return takes.map(({ numbers }) => numbers);
}

const bandsOf = (tale: Tale): { label: string; ms: number }[] =>
  tale.entries.flatMap((event) =>
    event.kind === "band" ? [{ label: event.label, ms: Math.round(event.until - event.at) }] : [],
  );

describe("scenes", () => {
  test("settlement: 47 of 100 payments are made twice, and none with a guard", async () => {
    const { scene, takes } = await play("settlement");
    const [plain, tenure] = takes;
    expect(plain?.numbers).toMatchObject({
      rows: 100,
      doubles: 47,
      staleAdmitted: 47,
      staleRefused: 0,
    });
    expect(tenure?.numbers).toMatchObject({
      rows: 100,
      doubles: 0,
      staleAdmitted: 0,
      staleRefused: 47,
    });
    expect(plain?.numbers.togetherMs).toBeGreaterThan(8_000);
    expect(tenure?.numbers.togetherMs).toBe(0);
    // S3: the holder's lease ended before the store's, although the program was paused.
    expect(tenure?.numbers.lateMs).toBeLessThan(0);
    for (const { tale } of takes) {
      expect(bandsOf(tale)).toContainEqual({ label: "garbage collection", ms: 41_300 });
      const granted = tale.events.flatMap((event) =>
        event.kind === "storeGranted"
          ? [{ token: event.token, at: clockText(event.at, scene.startsAt, 0) }]
          : [],
      );
      expect(granted.map(({ token }) => token)).toEqual([4719n, 4720n]);
      expect(["11:47:13", "11:47:14"]).toContain(granted[1]?.at);
      // Writes that were sent before the pause arrive after the lease has expired.
      const late = tale.entries.filter((event) => event.kind === "landed" && event.isStale);
      expect(late.length).toBe(47);
      for (const write of late) {
        if (write.kind !== "landed") continue;
        expect(clockText(write.sentAt, scene.startsAt, 0) <= "11:46:48").toBe(true);
        expect(clockText(write.at, scene.startsAt, 0) >= "11:47:26").toBe(true);
      }
    }
  });

  test("leader-gap: 11.7 s without a leader, and under 200 ms with a handover to a warm standby", async () => {
    const { takes } = await play("leader-gap");
    const [plain, tenure] = takes;
    expect(durationText(plain?.numbers.gapMs ?? 0)).toBe("11.7 s");
    expect(tenure?.numbers.gapMs).toBeLessThan(200);
    expect(tenure?.numbers).toMatchObject({ togetherMs: 0, staleAdmitted: 0 });
    // The network fault costs the new leader one renewal, but not the lease (L3).
    const renewals = tenure?.tale.events.flatMap((event) =>
      event.kind === "renewed" && event.who === "coord-3" ? [event.outcome] : [],
    );
    expect(renewals).toContain("failed");
    expect(renewals).not.toContain("gone");
    expect(findHolds(tenure?.tale as Tale).map(({ who }) => who)).toEqual(["coord-2", "coord-3"]);
  });

  test("stale-scheduler: token 41 places twelve workloads again, and with Tenure only 42 places them", async () => {
    const [plain, tenure] = await numbersOf("stale-scheduler");
    expect(plain).toMatchObject({ rows: 12, doubles: 12, staleAdmitted: 12, heldBack: 0 });
    // Six were checked before the pause, and the guard rejects them. The others fail their check.
    expect(tenure).toMatchObject({ rows: 12, doubles: 0, staleAdmitted: 0 });
    expect(tenure).toMatchObject({ staleRefused: 6, heldBack: 6, togetherMs: 0 });
  });

  test("paused-leader: without a guard Tenure admits as many stale writes as a lock, with one none", async () => {
    const [plain, open, guarded] = await numbersOf("paused-leader");
    expect(plain).toMatchObject({ staleAdmitted: 7, staleRefused: 0 });
    expect(open).toMatchObject({ staleAdmitted: 7, staleRefused: 0 });
    expect(guarded).toMatchObject({ staleAdmitted: 0, staleRefused: 7 });
    // The guard does not stop node-A: in all three takes it leads until it learns of its loss.
    for (const numbers of [plain, open, guarded])
      expect(numbers?.togetherMs).toBeGreaterThan(3_000);
  });

  test("clock-jump: a single clock fails once each, and Tenure never, even without a guard", async () => {
    const [wall, monotonic, tenure] = await numbersOf("clock-jump");
    expect(wall?.staleAdmitted).toBe(9);
    expect(durationText(wall?.lateMs ?? 0)).toBe("4 s");
    expect(monotonic?.staleAdmitted).toBe(7);
    expect(tenure).toMatchObject({ staleAdmitted: 0, staleRefused: 0, togetherMs: 0 });
    expect(tenure?.lateMs).toBeLessThan(0);
    expect(tenure?.heldBack).toBeGreaterThan(5);
  });
});

describe.each(SCENES)("$name", (scene) => {
  test("has the expected result, is repeatable, and has the same faults in every take", async () => {
    const [one, other] = [await play(scene.name), await play(scene.name)];
    expect(one.unmet).toEqual([]);
    expect(renderPage(other)).toBe(renderPage(one));
    expect(one.takes.map(({ tale }) => tale.hash())).toEqual(
      other.takes.map(({ tale }) => tale.hash()),
    );
    const [first, ...rest] = one.takes.map(({ tale }) => bandsOf(tale));
    expect(first?.length).toBeGreaterThan(0);
    for (const bands of rest) expect(bands).toEqual(first);
    expect(one.takes.map(({ take }) => take.isTenure)).toContain(false);
    expect(one.takes.at(-1)?.take.isTenure).toBe(true);
  });

  test("never has more than one holder at the store, in any take", async () => {
    const { takes } = await play(scene.name);
    for (const { tale } of takes) {
      const grants = findGrants(tale, scene.endsAt);
      expect(grants.length).toBeGreaterThanOrEqual(2);
      for (const [index, grant] of grants.entries()) {
        const next = grants[index + 1];
        if (next !== undefined) expect(next.from).toBeGreaterThanOrEqual(grant.to);
        if (next !== undefined) expect(next.token).toBeGreaterThan(grant.token);
      }
    }
  });

  test("has a page that is well-formed, complete and self-contained", async () => {
    const played = await play(scene.name);
    const page = renderPage(played);
    checkWellFormed(page.replace("<!doctype html>\n", ""));
    expect(page).not.toMatch(/<script|<link|<img|@import|https?:|url\((?!#)/);
    expect(page).toContain("prefers-color-scheme:dark");
    expect(page).toContain(`npm run sim -- ${scene.name}`);
    const figures = page.split('class="scroll"').slice(1);
    expect(figures).toHaveLength(scene.takes.length);
    for (const figure of figures) {
      for (const name of [...scene.machines, "store", scene.ledger])
        expect(figure).toContain(`>${name}</text>`);
      expect(figure).toMatch(/<title>.+<\/title>/);
      expect(figure).toContain("<desc>");
      for (const sign of ['class="bar h', 'class="renewal"', 'class="fault', 'class="grant h'])
        expect(figure).toContain(sign);
    }
    // The legend explains every symbol in a figure.
    const legend = /<ul class="legend">.*?<\/ul>/.exec(page)?.[0] ?? "";
    for (const [sign, words] of Object.entries(SIGNS))
      if (figures.some((figure) => figure.includes(sign))) expect(legend).toContain(words);
    for (const { take, numbers } of played.takes) {
      expect(page).toContain(take.title);
      if (numbers.staleRefused > 0) expect(page).toContain('class="mark refused"');
      if (numbers.staleAdmitted > 0) expect(page).toContain('class="mark harm"');
    }
    for (const line of toStory(scene, played.takes[0] as Played["takes"][number]))
      expect(page).toContain(line.replaceAll(">", "&gt;").replaceAll("<", "&lt;"));
  });

  test("draws inside its figures", async () => {
    const page = renderPage(await play(scene.name));
    for (const [, width, height, content] of page.matchAll(
      /<svg class="plot" width="([\d.]+)" height="([\d.]+)"(.*?)<\/svg>/gs,
    )) {
      const xs = numbersIn(content, /\b(?:x|x1|x2|cx)="(-?[\d.]+)"/g);
      const ys = numbersIn(content, /\b(?:y|y1|y2|cy)="(-?[\d.]+)"/g);
      expect(xs.length).toBeGreaterThan(20);
      expect(Math.min(...xs, ...ys)).toBeGreaterThanOrEqual(-1);
      expect(Math.max(...xs)).toBeLessThanOrEqual(Number(width));
      expect(Math.max(...ys)).toBeLessThanOrEqual(Number(height));
      expect(content).not.toContain("NaN");
    }
  });
});

const SIGNS = {
  'class="doubt"': "in doubt",
  'class="afterwards': "past its deadline",
  'class="renewalFailed"': "renewal failed",
  'class="deadline"': "own deadline",
  'class="expiry"': "expired at the store",
  'class="flight"': "long under way",
  'class="mark refused"': "stale write refused",
  'class="mark harm"': "stale write admitted",
  'class="mark heldBack"': "check() said no",
} as const;

function numbersIn(text: string | undefined, pattern: RegExp): number[] {
  return [...(text ?? "").matchAll(pattern)].map(([, digits]) => Number(digits));
}

describe("coloured text", () => {
  const [light = "", dark = ""] = FIGURE_STYLE.split("@media");
  /** Text colours that are used on the page background. */
  const onPaper = ["text", "dim", "harm", "good", "refused", "deadline", "expiry", "faultText"];
  const onBars = ["h0", "h1", "h2"];

  test.each([
    ["light", light],
    ["dark", dark],
  ])("has a contrast of at least 4.5 to 1 in %s mode", (_name, style) => {
    const colour = (name: string): number[] =>
      (new RegExp(`--${name}:#([0-9a-f]{6})`).exec(style)?.[1]?.match(/../g) ?? []).map((hex) =>
        Number.parseInt(hex, 16),
      );
    for (const paper of ["bg", "lane0", "lane1", "box"])
      for (const text of onPaper)
        expect(contrast(colour(text), colour(paper)), `${text} on ${paper}`).toBeGreaterThan(4.5);
    for (const bar of onBars)
      expect(contrast(colour("onBar"), colour(bar)), bar).toBeGreaterThan(4.5);
  });
});

/** The contrast ratio of WCAG 2. */
function contrast(one: readonly number[], other: readonly number[]): number {
  const luminance = (parts: readonly number[]): number => {
    const [red = Number.NaN, green = Number.NaN, blue = Number.NaN] = parts.map((part) => {
      const share = part / 255;
      return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const [high, low] = [luminance(one), luminance(other)].sort((a, b) => b - a) as [number, number];
  return (high + 0.05) / (low + 0.05);
}

/** Checks that elements are nested correctly, attributes quoted and special characters escaped. */
function checkWellFormed(markup: string): void {
  const open: string[] = [];
  const tag = /<(\/?)([a-zA-Z][a-zA-Z0-9]*)((?: [a-zA-Z][\w:-]*="[^"<]*")*)(\/?)>/g;
  for (const [, closes, name, , isEmpty] of markup.matchAll(tag)) {
    if (closes === "/") expect(name).toBe(open.pop());
    else if (isEmpty !== "/") open.push(name as string);
  }
  expect(open).toEqual([]);
  const text = markup.replace(tag, "");
  expect(text).not.toMatch(/[<>]|&(?!amp;|lt;|gt;|quot;)/);
}

test("the command line knows every scene by its name", () => {
  expect(SCENE_NAMES).toEqual(SCENES.map(({ name }) => name));
});

test("docs/simulator.md has the numbers of every scene", async () => {
  const rows = readFileSync(join(root, "docs", "simulator.md"), "utf8").split("\n");
  for (const scene of SCENES) {
    const row = rows.find((line) => line.startsWith(`| \`${scene.name}\` |`))?.split("|");
    const { takes } = await play(scene.name);
    const today = takes.filter(({ take }) => !take.isTenure);
    for (const { numbers } of today) expect(row?.[3]).toContain(harmOf(scene, numbers));
    const tenure = takes.at(-1)?.numbers as Numbers;
    if (scene.shown.includes("gapMs")) expect(row?.[4]).toContain("under 50 ms");
    if (scene.shown.includes("gapMs")) expect(tenure.gapMs).toBeLessThan(50);
    if (tenure.staleRefused > 0 && takes.length === 2)
      expect(row?.[4]).toContain(`${tenure.staleRefused} refused`);
  }
});

function harmOf(scene: Scene, { gapMs, doubles, staleAdmitted }: Numbers): string {
  if (scene.shown.includes("gapMs")) return durationText(gapMs);
  return String(doubles > 0 ? doubles : staleAdmitted);
}

test("docs/pictures/paused-leader.svg is up to date (update it with vitest -u)", async () => {
  const picture = renderPictureFile(await play("paused-leader"));
  checkWellFormed(picture);
  await expect(picture).toMatchFileSnapshot(join(root, "docs", "pictures", "paused-leader.svg"));
});

describe("the plain lock", () => {
  const quiet = (run: (stage: Stage) => void): Scene => ({
    ...sceneOf("paused-leader"),
    takes: [{ title: "quiet", how: "", isTenure: false, play: run }],
    expect: () => [],
  });

  async function worker(stage: Stage, name: string, from: number): Promise<void> {
    const program = stage.program(name);
    const lock = new PlainLock(stage, program, await stage.store(program), {
      ttlMs: 5_000,
      renewEveryMs: 1_500,
      deadlineClock: "wall",
    });
    await stage.until(program, from);
    for (let turn = 1; ; turn += 1) {
      await lock.takeWhenFree(200);
      for (let number = 0; number < 20 && lock.isMine(); number += 1) {
        const row = `${name} ${turn}.${number}`;
        await stage.ledger.write(program, { row, token: lock.token, guarded: false });
        await program.sleep(300);
      }
      await lock.release();
      await program.sleep(1_000);
    }
  }

  test("is correct without faults: it is renewed, released and never held by two", async () => {
    const scene = quiet((stage) => {
      void worker(stage, "node-A", 0);
      void worker(stage, "node-B", 500);
    });
    const { takes } = await playScene(scene, simHost);
    const tale = takes[0]?.tale as Tale;
    expect(takes[0]?.numbers).toMatchObject({ staleAdmitted: 0, togetherMs: 0, doubles: 0 });
    const holds = findHolds(tale);
    expect(holds.length).toBeGreaterThanOrEqual(4);
    expect(new Set(holds.map(({ who }) => who)).size).toBe(2);
    // The lock is held for longer than its ttl, so it was renewed.
    const [first] = holds;
    expect((first?.stopsAt ?? 0) - (first?.from ?? 0)).toBeGreaterThan(5_000);
    expect(
      findGrants(tale, scene.endsAt)
        .slice(0, -1)
        .map(({ end }) => end),
    ).not.toContain("expired");
  });
});
