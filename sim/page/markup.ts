// Builds HTML and SVG elements as text. Everything that is not markup of ours is escaped.

export type Attributes = Readonly<Record<string, string | number | undefined>>;

/** The children are markup, and are not escaped. */
export function element(
  name: string,
  attributes: Attributes,
  ...children: readonly string[]
): string {
  const shown = Object.entries(attributes).flatMap(([key, value]) =>
    value === undefined
      ? []
      : [` ${key}="${typeof value === "number" ? digits(value) : escaped(value)}"`],
  );
  const open = `<${name}${shown.join("")}`;
  return children.length === 0 ? `${open}/>` : `${open}>${children.join("")}</${name}>`;
}

export function escaped(text: string): string {
  return text
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
}

/** Rounds to a tenth of a pixel, so that the output is the same on every machine. */
function digits(value: number): string {
  const rounded = Math.round(value * 10) / 10;
  return String(Object.is(rounded, -0) ? 0 : rounded);
}
