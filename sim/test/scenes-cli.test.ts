// Goal: `npm run sim -- SCENE` tells the story with its numbers, writes the page where it says, and never writes over anything else.
// Method: the command itself with a voice that listens, in a folder of its own.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseCommand } from "../../src/cli/arguments.ts";
import { commandHelp } from "../../src/cli/help.ts";
import { SCENE_NAMES, SIM } from "../cli/definition.ts";
import { simCommand } from "../cli/simulate.ts";
import { SCENES } from "../scenes/list.ts";
import { ListeningVoice } from "./support/listening-voice.ts";

const folder = mkdtempSync(join(tmpdir(), "tenure-scenes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function sim(...words: string[]): Promise<{ code: number; text: string }> {
  const voice = new ListeningVoice(words.includes("--json"));
  const code = await simCommand(parseCommand(SIM, words), voice);
  return { code, text: voice.texts.join("\n") };
}

describe("npm run sim -- SCENE", () => {
  test("tells the story and the numbers of both, writes the page and says where", async () => {
    const file = join(folder, "settlement.html");
    const { code, text } = await sim("settlement", "--out", file);
    expect(code).toBe(0);
    expect(text).toContain("A lock with a ttl");
    expect(text).toContain("Tenure and a guard");
    expect(text).toMatch(/11:46:48\.412 {2}node-2 {3}FAULT garbage collection \(41\.3 s\)/);
    expect(text).toContain("admitted although stale, a second time (40 times");
    expect(text).toContain("refused, stale (40 times");
    expect(text).toMatch(/payments paid twice +47 +0\n/);
    expect(text).toContain(`Page: ${file}`);
    const page = readFileSync(file, "utf8");
    expect(page).toContain("<h1>The settlement batch that ran twice</h1>");
    // Its own page is written over, with the same bytes, and the same is printed.
    expect(await sim("settlement", "--out", file)).toEqual({ code, text });
    expect(readFileSync(file, "utf8")).toBe(page);
  });

  test("writes over nothing else unless told to, and does nothing before it has looked", async () => {
    const file = join(folder, "notes.html");
    writeFileSync(file, "my notes");
    await expect(sim("clock-jump", "--out", file)).rejects.toMatchObject({
      message: expect.stringContaining("is not a page of the simulator"),
      exitCode: 2,
    });
    expect(readFileSync(file, "utf8")).toBe("my notes");
    await sim("clock-jump", "--out", file, "--force");
    expect(readFileSync(file, "utf8")).toContain("The clock that jumps");
  });

  test("without --out the page goes to the working folder, named after the scene", async () => {
    const before = process.cwd();
    process.chdir(folder);
    try {
      const { text } = await sim("stale-scheduler");
      expect(text).toContain("Page: tenure-stale-scheduler.html");
    } finally {
      process.chdir(before);
    }
    expect(existsSync(join(folder, "tenure-stale-scheduler.html"))).toBe(true);
  });

  test("an empty file is not a page either", async () => {
    const file = join(folder, "empty.html");
    writeFileSync(file, "");
    await expect(sim("clock-jump", "--out", file)).rejects.toThrow("not a page");
  });

  test("a place where nothing can be written is named, with a way out", async () => {
    const nowhere = join(folder, "no", "such", "page.html");
    await expect(sim("paused-leader", "--out", nowhere)).rejects.toThrow(
      /cannot be written to .*--out/,
    );
    const itself = join(folder, "directory");
    mkdirSync(itself);
    await expect(sim("paused-leader", "--out", itself)).rejects.toThrow(
      /cannot be written to .*--out/,
    );
    await expect(sim("paused-leader", "--out", itself, "--force")).rejects.toThrow(/EISDIR/);
  });

  test("--no-page prints only", async () => {
    const { code, text } = await sim("leader-gap", "--no-page");
    expect(code).toBe(0);
    expect(text).toMatch(/time without a leader +11\.7 s +\d+ ms/);
    expect(text).not.toContain("Page:");
    expect(existsSync("tenure-leader-gap.html")).toBe(false);
  });

  test("in JSON: the numbers of each take", async () => {
    const { text } = await sim("stale-scheduler", "--no-page", "--json");
    expect(JSON.parse(text)).toMatchObject({
      scene: "stale-scheduler",
      asExpected: true,
      unmet: [],
      takes: [
        { isTenure: false, numbers: { doubles: 12 } },
        { isTenure: true, numbers: { doubles: 0, staleRefused: 6 } },
      ],
    });
  });

  test("code 1, and what did not come out, when a story does not come out as it must", async () => {
    const scene = SCENES.find(({ name }) => name === "paused-leader");
    const expected = scene?.expect;
    Object.assign(scene as object, { expect: () => ["the guard holds"] });
    try {
      const { code, text } = await sim("paused-leader", "--no-page");
      expect(code).toBe(1);
      expect(text).toContain("This did not come out: the guard holds.");
    } finally {
      Object.assign(scene as object, { expect: expected });
    }
  });

  test("`scenes` lists them, and so do the help and the refusal of another name", async () => {
    const { text } = await sim("scenes");
    const help = commandHelp(SIM);
    for (const name of SCENE_NAMES) {
      expect(text).toContain(name);
      expect(help).toContain(name);
      await expect(sim("setlement")).rejects.toThrow(name);
    }
  });

  test.each([
    [["settlement", "--seed", "3"], "--seed is for seeds"],
    [["settlement", "--store", "etcd"], "runs on the memory store"],
    [["settlement", "--jobs", "2"], "--jobs is for seeds"],
    [["settlement", "--twice"], "--twice is for seeds"],
    [["settlement", "--calm-at", "5000"], "--calm-at is for seeds"],
    [["--out", "x.html"], "--out needs a scene"],
    [["--no-page", "--seed", "3"], "--no-page needs a scene"],
    [["scenes", "--force"], "lists them"],
    [["settlement", "--no-page", "--out", "x.html"], "--no-page writes nothing"],
  ])("refuses %j", async (words, message) => {
    await expect(sim(...words)).rejects.toThrow(message);
  });
});
