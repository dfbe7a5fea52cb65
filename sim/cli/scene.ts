// `npm run sim -- SCENE`: plays a story, tells it line by line with its numbers, and writes the page. Nothing is written over that
// is not such a page.

import { closeSync, openSync, readSync, writeFileSync } from "node:fs";
import type { Options } from "../../src/cli/arguments.ts";
import { CommandError } from "../../src/cli/command-error.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { fold, table } from "../../src/cli/text.ts";
import { UsageError } from "../../src/cli/usage-error.ts";
import type { Line, Voice } from "../../src/cli/voice.ts";
import { simHost } from "../host/sim-host.ts";
import { PAGE_MARK, renderPage } from "../page/page.ts";
import { numberRows } from "../scenes/figures.ts";
import { SCENES } from "../scenes/list.ts";
import { type Played, playScene } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import { toLines, toStory } from "../scenes/story.ts";

const WIDTH = 96;
/** The mark stands in the first lines of a page. */
const MARK_WITHIN = 512;

export async function sceneCommand(name: string, options: Options, voice: Voice): Promise<number> {
  if (name === "scenes") return list(options, voice);
  const scene = SCENES.find((each) => each.name === name);
  if (scene === undefined) throw new Error(`${name} is not among the scenes.`);
  const file = fileOf(scene, options);
  // Before the scene is played: whoever has to name another file should hear of it at once.
  if (file !== undefined && !options.has("force")) refuseOther(file);
  const played = await playScene(scene, simHost);
  if (file !== undefined) write(file, renderPage(played));
  voice.answer(
    () => linesOfScene(played, file),
    () => objectOf(played, file),
  );
  return played.unmet.length === 0 ? EXIT.ok : EXIT.no;
}

function list(options: Options, voice: Voice): number {
  const given = ["out", "no-page", "force"].find((option) => options.has(option));
  if (given !== undefined) throw new UsageError(`\`scenes\` lists them: leave out --${given}.`);
  voice.answer(
    () =>
      table(
        ["SCENE", "STORY"],
        SCENES.map(({ name, title }) => [name, title]),
      ),
    () => SCENES.map(({ name, title, story }) => ({ name, title, story })),
  );
  return EXIT.ok;
}

function fileOf({ name }: Scene, options: Options): string | undefined {
  if (!options.has("no-page")) return options.text("out") ?? `tenure-${name}.html`;
  if (!options.has("out") && !options.has("force")) return undefined;
  throw new UsageError("--no-page writes nothing: leave out --out and --force, or --no-page.");
}

function refuseOther(file: string): void {
  const head = headOf(file);
  if (head === undefined || head.includes(PAGE_MARK)) return;
  throw new CommandError(
    `${file} is there and is not a page of the simulator. Name another with --out, or give --force.`,
    EXIT.usage,
    { file },
  );
}

/** How the file begins; undefined when there is none. */
function headOf(file: string): string | undefined {
  let handle: number;
  try {
    handle = openSync(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw unusable(file, error);
  }
  try {
    const head = Buffer.alloc(MARK_WITHIN);
    return head.toString("utf8", 0, readSync(handle, head));
  } catch (error) {
    throw unusable(file, error);
  } finally {
    closeSync(handle);
  }
}

function write(file: string, page: string): void {
  try {
    writeFileSync(file, page);
  } catch (error) {
    throw unusable(file, error);
  }
}

function unusable(file: string, error: unknown): CommandError {
  const reason = error instanceof Error ? error.message : String(error);
  return new CommandError(
    `The page cannot be written to ${file}: ${reason}. Name another file with --out.`,
    EXIT.usage,
    { file },
  );
}

function linesOfScene(played: Played, file: string | undefined): Line[] {
  const { scene, takes, unmet } = played;
  const bold = (text: string): Line => ({ style: "bold", text });
  return [
    bold(scene.title),
    ...fold(scene.story.join(" "), WIDTH),
    ...takes.flatMap((each) => [
      "",
      bold(each.take.title),
      ...fold(each.take.how, WIDTH),
      ...painted(toStory(scene, each), toLines(scene, each)),
    ]),
    "",
    ...table(
      ["", ...takes.map(({ take }) => take.title)],
      numberRows(played).map(({ name, values }) => [name, ...values.map(({ text }) => text)]),
    ),
    "",
    ...fold(scene.moral, WIDTH),
    ...unmet.map((what): Line => ({ style: "red", text: `This did not come out: ${what}.` })),
    ...(file === undefined ? [] : ["", `Page: ${file}`]),
  ];
}

function painted(
  texts: readonly string[],
  lines: readonly { readonly isHarm: boolean; readonly isFault: boolean }[],
): Line[] {
  return texts.map((text, index) => {
    const line = lines[index];
    if (line?.isHarm) return { style: "red", text: `  ${text}` };
    return line?.isFault ? { style: "yellow", text: `  ${text}` } : `  ${text}`;
  });
}

function objectOf({ scene, takes, unmet }: Played, file: string | undefined): unknown {
  return {
    ...{ scene: scene.name, title: scene.title, page: file, asExpected: unmet.length === 0, unmet },
    takes: takes.map(({ take, tale, numbers }) => ({
      ...{ title: take.title, isTenure: take.isTenure, numbers, hash: tale.hash() },
    })),
  };
}
