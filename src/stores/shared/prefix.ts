// Computes the range of names that share a prefix, for stores that order resources by their UTF-8
// bytes.

/**
 * The smallest text that sorts after every text with this prefix, in the order of UTF-8. Undefined
 * if every text with the prefix is at the end of the order.
 */
export function prefixUpperBound(prefix: string): string | undefined {
  const points = [...prefix].map((character) => character.codePointAt(0) ?? 0);
  while (points.length > 0) {
    const last = points.pop() ?? 0;
    if (last === 0x10_ffff) continue;
    // Surrogates (U+D800 to U+DFFF) are not characters; skip them.
    points.push(last === 0xd7ff ? 0xe000 : last + 1);
    return String.fromCodePoint(...points);
  }
  return undefined;
}
