// Goal: `npm run sim -- SCENE` prints the events and numbers of a scene, writes the page to the
// file it names, and never overwrites another file. Method: the command itself with recorded
// output, in a temporary folder.
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { formatCommandHelp } from "../../src/cli/help/help.ts";
import { parseCommand } from "../../src/cli/parsing/arguments.ts";
import { SCENE_NAMES, SIM } from "../cli/definition.ts";
import { simCommand } from "../cli/simulate.ts";
import { SCENES } from "../scenes/list.ts";
import { RecordedOutput } from "./support/recorded-output.ts";

const folder = mkdtempSync(join(tmpdir(), "tenure-scenes-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function sim(...words: string[]): Promise<{ code: number; text: string }> {
  const output = new RecordedOutput(words.includes("--json"));
  const code = await simCommand(parseCommand(SIM, words), output);
  return { code, text: output.texts.join("\n") };
}

describe("npm run sim -- SCENE", () => {
  test("prints the events and numbers of all takes, writes the page and names the file", async () => {
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
    // The second time it overwrites its own page with the same bytes and prints the same text.
    expect(await sim("settlement", "--out", file)).toEqual({ code, text });
    expect(readFileSync(file, "utf8")).toBe(page);
  });

  test("overwrites another file only with --force", async () => {
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

  test("writes the page to the working folder by default, named after the scene", async () => {
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

  test("does not overwrite an empty file", async () => {
    const file = join(folder, "empty.html");
    writeFileSync(file, "");
    await expect(sim("clock-jump", "--out", file)).rejects.toThrow("not a page");
  });

  test("names a file that cannot be written and suggests --out", async () => {
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

  test("writes no page with --no-page", async () => {
    const { code, text } = await sim("leader-gap", "--no-page");
    expect(code).toBe(0);
    expect(text).toMatch(/time without a leader +11\.7 s +\d+ ms/);
    expect(text).not.toContain("Page:");
    expect(existsSync("tenure-leader-gap.html")).toBe(false);
  });

  test("prints the numbers of each take with --json", async () => {
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

  test("ends with code 1 and names what differs if a scene does not have the expected result", async () => {
    const scene = SCENES.find(({ name }) => name === "paused-leader");
    const expected = scene?.expect;
    Object.assign(scene as object, { expect: () => ["the guard holds"] });
    try {
      const { code, text } = await sim("paused-leader", "--no-page");
      expect(code).toBe(1);
      expect(text).toContain("Not as expected: the guard holds.");
    } finally {
      Object.assign(scene as object, { expect: expected });
    }
  });

  test("lists the scenes in `scenes`, in the help and in the error about an unknown name", async () => {
    const { text } = await sim("scenes");
    const help = formatCommandHelp(SIM);
    for (const name of SCENE_NAMES) {
      expect(text).toContain(name);
      expect(help).toContain(name);
      await expect(sim("setlement")).rejects.toThrow(name);
    }
  });

  test.each([
    [["settlement", "--seed", "3"], "--seed is for seeds"],
    [["settlement", "--store", "etcd"], "always runs on the memory store"],
    [["settlement", "--jobs", "2"], "--jobs is for seeds"],
    [["settlement", "--twice"], "--twice is for seeds"],
    [["settlement", "--calm-at", "5000"], "--calm-at is for seeds"],
    [["--out", "x.html"], "--out needs a scene"],
    [["--no-page", "--seed", "3"], "--no-page needs a scene"],
    [["scenes", "--force"], "only lists the scenes"],
    [["settlement", "--no-page", "--out", "x.html"], "--no-page writes nothing"],
  ])("rejects %j", async (words, message) => {
    await expect(sim(...words)).rejects.toThrow(message);
  });
});
