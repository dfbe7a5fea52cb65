// `npm run sim -- SCENE`: plays a scene, prints its events and numbers, and writes the page. It
// never overwrites a file that is not such a page, unless --force is given.

import { closeSync, openSync, readSync, writeFileSync } from "node:fs";
import { CommandError, UsageError } from "../../src/cli/errors.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";
import type { Line, Output } from "../../src/cli/output/output.ts";
import { fold, table } from "../../src/cli/output/text.ts";
import type { Options } from "../../src/cli/parsing/arguments.ts";
import { simHost } from "../host/sim-host.ts";
import { PAGE_MARK, renderPage } from "../page/page.ts";
import { numberRows } from "../scenes/figures.ts";
import { SCENES } from "../scenes/list.ts";
import { type Played, playScene } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import { toLines, toStory } from "../scenes/story.ts";

const WIDTH = 96;
/** A page has its mark within this many bytes. */
const HEAD_BYTES = 512;

export async function sceneCommand(
  name: string,
  options: Options,
  output: Output,
): Promise<number> {
  if (name === "scenes") return list(options, output);
  const scene = SCENES.find((each) => each.name === name);
  if (scene === undefined) throw new Error(`There is no scene ${name}.`);
  const file = chooseFile(scene, options);
  // Check the file before the scene is played, so that the user learns of a problem at once.
  if (file !== undefined && !options.has("force")) rejectOtherFile(file);
  const played = await playScene(scene, simHost);
  if (file !== undefined) write(file, renderPage(played));
  output.answer(
    () => formatScene(played, file),
    () => toJson(played, file),
  );
  return played.unmet.length === 0 ? EXIT.ok : EXIT.no;
}

function list(options: Options, output: Output): number {
  const given = ["out", "no-page", "force"].find((option) => options.has(option));
  if (given !== undefined)
    throw new UsageError(`\`scenes\` only lists the scenes: leave out --${given}.`);
  output.answer(
    () =>
      table(
        ["SCENE", "STORY"],
        SCENES.map(({ name, title }) => [name, title]),
      ),
    () => SCENES.map(({ name, title, story }) => ({ name, title, story })),
  );
  return EXIT.ok;
}

/** Returns undefined if no page is to be written. */
function chooseFile({ name }: Scene, options: Options): string | undefined {
  if (!options.has("no-page")) return options.text("out") ?? `tenure-${name}.html`;
  if (!options.has("out") && !options.has("force")) return undefined;
  throw new UsageError("--no-page writes nothing: leave out --out and --force, or --no-page.");
}

function rejectOtherFile(file: string): void {
  const head = readHead(file);
  if (head === undefined || head.includes(PAGE_MARK)) return;
  throw new CommandError(
    `${file} exists and is not a page of the simulator. Choose another file with --out, or overwrite it with --force.`,
    EXIT.usage,
    { file },
  );
}

/** Returns the beginning of the file, or undefined if it does not exist. */
function readHead(file: string): string | undefined {
  let handle: number;
  try {
    handle = openSync(file, "r");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw toCommandError(file, error);
  }
  try {
    const head = Buffer.alloc(HEAD_BYTES);
    return head.toString("utf8", 0, readSync(handle, head));
  } catch (error) {
    throw toCommandError(file, error);
  } finally {
    closeSync(handle);
  }
}

function write(file: string, page: string): void {
  try {
    writeFileSync(file, page);
  } catch (error) {
    throw toCommandError(file, error);
  }
}

function toCommandError(file: string, error: unknown): CommandError {
  const reason = error instanceof Error ? error.message : String(error);
  return new CommandError(
    `The page cannot be written to ${file}: ${reason}. Choose another file with --out.`,
    EXIT.usage,
    { file },
  );
}

function formatScene(played: Played, file: string | undefined): Line[] {
  const { scene, takes, unmet } = played;
  const bold = (text: string): Line => ({ style: "bold", text });
  return [
    bold(scene.title),
    ...fold(scene.story.join(" "), WIDTH),
    ...takes.flatMap((each) => [
      "",
      bold(each.take.title),
      ...fold(each.take.how, WIDTH),
      ...paintLines(toStory(scene, each), toLines(scene, each)),
    ]),
    "",
    ...table(
      ["", ...takes.map(({ take }) => take.title)],
      numberRows(played).map(({ name, values }) => [name, ...values.map(({ text }) => text)]),
    ),
    "",
    ...fold(scene.moral, WIDTH),
    ...unmet.map((what): Line => ({ style: "red", text: `Not as expected: ${what}.` })),
    ...(file === undefined ? [] : ["", `Page: ${file}`]),
  ];
}

function paintLines(
  texts: readonly string[],
  lines: readonly { readonly isHarm: boolean; readonly isFault: boolean }[],
): Line[] {
  return texts.map((text, index) => {
    const line = lines[index];
    if (line?.isHarm) return { style: "red", text: `  ${text}` };
    return line?.isFault ? { style: "yellow", text: `  ${text}` } : `  ${text}`;
  });
}

function toJson({ scene, takes, unmet }: Played, file: string | undefined): unknown {
  return {
    scene: scene.name,
    title: scene.title,
    page: file,
    asExpected: unmet.length === 0,
    unmet,
    takes: takes.map(({ take, tale, numbers }) => ({
      title: take.title,
      isTenure: take.isTenure,
      numbers,
      hash: tale.hash(),
    })),
  };
}
