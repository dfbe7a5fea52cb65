// Renders a scene as one self-contained page without network access or scripts. It shows the story
// first, then the numbers, then a figure for each take, and the same as text at the end.

import { numberRows } from "../scenes/figures.ts";
import type { Played, PlayedTake } from "../scenes/play.ts";
import type { Scene } from "../scenes/scene.ts";
import { toStory } from "../scenes/story.ts";
import { drawFigure } from "./figure.ts";
import { HATCH, renderLegend } from "./legend.ts";
import { element, escaped } from "./markup.ts";
import { type Picture, toPicture } from "./picture.ts";
import { NAMES_WIDTH, PLOT_WIDTH } from "./scale.ts";
import { PAGE_STYLE } from "./style.ts";

/** Identifies a page of the simulator, so that no other file is overwritten. */
export const PAGE_MARK = '<meta name="generator" content="tenure simulator"/>';

export function renderPage(played: Played): string {
  const { scene, takes } = played;
  const pictures = takes.map((take) => toPicture(scene, take));
  const body = element(
    "main",
    {},
    element("p", { class: "over" }, "Tenure simulator"),
    element("h1", {}, escaped(scene.title)),
    element("p", {}, escaped(scene.story.join(" "))),
    numbersTable(played),
    renderLegend(pictures),
    ...takes.map((take, index) => renderFigure(scene, take, pictures[index] as Picture)),
    element("p", { class: "moral" }, escaped(scene.moral)),
    ...takes.map((take) => renderText(scene, take)),
    footer(scene),
  );
  return [
    "<!doctype html>",
    '<html lang="en">',
    "<head>",
    '<meta charset="utf-8"/>',
    PAGE_MARK,
    '<meta name="viewport" content="width=device-width,initial-scale=1"/>',
    '<meta name="color-scheme" content="light dark"/>',
    element("title", {}, escaped(`${scene.title} \u00B7 Tenure`)),
    element("style", {}, PAGE_STYLE),
    "</head>",
    "<body>",
    element(
      "svg",
      { width: 0, height: 0, style: "position:absolute", "aria-hidden": "true" },
      HATCH,
    ),
    body,
    "</body>",
    "</html>",
    "",
  ].join("\n");
}

function numbersTable(played: Played): string {
  const { takes } = played;
  const toClass = (index: number, isHarm: boolean): string | undefined =>
    [takes[index]?.take.isTenure === true ? "tenure" : "", isHarm ? "harm" : ""].join(" ").trim() ||
    undefined;
  const head = takes.map(({ take }, index) =>
    element("th", { scope: "col", class: toClass(index, false) }, escaped(take.title)),
  );
  const rows = numberRows(played).map(({ name, values }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, escaped(name)),
      ...values.map(({ text, isHarm }, index) =>
        element("td", { class: toClass(index, isHarm) }, escaped(text)),
      ),
    ),
  );
  const empty = element("td", {}, "");
  return element(
    "div",
    { class: "tableBox" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, empty, ...head)),
      element("tbody", {}, ...rows),
    ),
  );
}

function renderFigure(scene: Scene, played: PlayedTake, picture: Picture): string {
  const { height, names, plot } = drawFigure(picture);
  const { take } = played;
  const svg = (name: string, width: number, label: string, ...content: string[]): string =>
    element(
      "svg",
      { class: name, width, height, viewBox: `0 0 ${width} ${height}`, role: "img" },
      element("title", {}, escaped(label)),
      ...content,
    );
  const description = `Timeline of "${scene.title}", ${take.title}: ${take.how} The end of the page has the same as text.`;
  return [
    element("h2", {}, escaped(take.title)),
    element("p", { class: "how" }, escaped(take.how)),
    element(
      "div",
      { class: "scroll", tabindex: "0", role: "group", "aria-label": `Figure: ${take.title}` },
      svg("names", NAMES_WIDTH, "The lanes of the figure", names),
      svg("plot", PLOT_WIDTH, take.title, element("desc", {}, escaped(description)), plot),
    ),
  ].join("\n");
}

function renderText(scene: Scene, played: PlayedTake): string {
  return element(
    "details",
    {},
    element("summary", {}, escaped(`As text: ${played.take.title}`)),
    element("pre", {}, escaped(toStory(scene, played).join("\n"))),
  );
}

function footer(scene: Scene): string {
  const command = element("code", {}, `npm run sim -- ${scene.name}`);
  return element(
    "footer",
    {},
    element("p", {}, `Made by ${command}; the same command makes the same page.`),
    element(
      "p",
      {},
      "Every take runs in the simulator, on virtual time. The store is the memory store, reached over a simulated network whose messages take up to 6 ms. The programs with Tenure run the code that ships.",
    ),
  );
}
