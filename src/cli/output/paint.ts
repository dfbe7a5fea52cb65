// Colours text, only on a terminal that supports colours.

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, magenta: 35, cyan: 36 } as const;
export type Style = keyof typeof STYLES;
export type Paint = (style: Style, text: string) => string;

/** hasColors() respects NO_COLOR, FORCE_COLOR and TERM. Only terminals have it. */
export function paintFor(stream: { readonly hasColors?: () => boolean }): Paint {
  const colours = stream.hasColors?.() ?? false;
  return (style, text) => (colours ? `\u001B[${STYLES[style]}m${text}\u001B[0m` : text);
}
