// Renders all takes of a scene into one SVG file, for a README.

import type { Played } from "../scenes/play.ts";
import { drawFigure, joined } from "./figure.ts";
import { HATCH } from "./legend.ts";
import { element, escaped } from "./markup.ts";
import { toPicture } from "./picture.ts";
import { NAMES_WIDTH, PLOT_WIDTH } from "./scale.ts";
import { FIGURE_STYLE } from "./style.ts";

const TITLE = 40;

export function renderPictureFile({ scene, takes }: Played): string {
  const width = NAMES_WIDTH + PLOT_WIDTH;
  let top = 0;
  const parts = takes.map((take) => {
    const drawing = drawFigure(toPicture(scene, take));
    const title = element("text", { class: "title", x: 8, y: top + 26 }, escaped(take.take.title));
    const drawn = `${title}\n${joined(drawing, top + TITLE)}`;
    top += TITLE + drawing.height;
    return drawn;
  });
  const titles = takes.map(({ take }) => take.title).join("; ");
  return `${element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      width,
      height: top,
      viewBox: `0 0 ${width} ${top}`,
      role: "img",
    },
    element("title", {}, escaped(scene.title)),
    element(
      "desc",
      {},
      escaped(`${scene.story.join(" ")} The same faults ${takes.length} times: ${titles}.`),
    ),
    element("style", {}, FIGURE_STYLE),
    HATCH,
    element("rect", { class: "paper", width, height: top }),
    ...parts,
  )}\n`;
}
