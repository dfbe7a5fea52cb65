// Measures text as backends store it: its size in UTF-8, and whether UTF-8 can express it at all.

/**
 * The number of bytes in UTF-8. Counted by hand, because this runs for every grant and names are
 * short.
 */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (isPair(unit, text.charCodeAt(at + 1))) {
      // A surrogate pair: two units, four bytes.
      bytes += 2;
      at += 1;
    } else bytes += 2;
  }
  return bytes;
}

function isPair(unit: number, next: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff;
}

/**
 * Whether the text has half of a surrogate pair. UTF-8 cannot express it, so a backend would return
 * another text.
 */
export function hasLoneSurrogate(text: string): boolean {
  // A cheap test first: nearly all texts have no surrogates, and this runs for every acquisition.
  if (!/[\uD800-\uDFFF]/.test(text)) return false;
  return /(?:[\uD800-\uDBFF](?![\uDC00-\uDFFF]))|(?:(?<![\uD800-\uDBFF])[\uDC00-\uDFFF])/.test(
    text,
  );
}
