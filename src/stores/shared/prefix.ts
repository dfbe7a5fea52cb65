// For stores that keep resources in the order of their UTF-8 bytes: where the names with one prefix end.

/** The smallest text that comes behind everything with this prefix, in the order of UTF-8; undefined: there is none. */
export function firstBehind(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0) ?? 0);
  while (points.length > 0) {
    const last = points.pop() ?? 0;
    if (last === 0x10_ffff) continue;
    // Half surrogates are not text; the next code point behind them is.
    points.push(last === 0xd7ff ? 0xe000 : last + 1);
    return String.fromCodePoint(...points);
  }
  return undefined;
}
