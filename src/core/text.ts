// Text as every backend will store it: its size in UTF-8, and whether it can be expressed in UTF-8 at all.

/** Counted by hand: this runs for every grant, and names are short. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let at = 0; at < text.length; at += 1) {
    const unit = text.charCodeAt(at);
    if (unit < 0x80) continue;
    if (unit < 0x800) bytes += 1;
    else if (isPair(unit, text.charCodeAt(at + 1))) {
      // Two units, four bytes.
      bytes += 2;
      at += 1;
    } else bytes += 2;
  }
  return bytes;
}

function isPair(unit: number, next: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff && next >= 0xdc00 && next <= 0xdfff;
}

/** Half of a surrogate pair has no form in UTF-8: it would come back as another text. */
export function hasLoneSurrogate(text: string): boolean {
  // Nearly every text has none at all, and this is asked for every acquisition.
  if (!/[\uD800-\uDFFF]/.test(text)) return false;
  return /(?:[\uD800-\uDBFF](?![\uDC00-\uDFFF]))|(?:(?<![\uD800-\uDBFF])[\uDC00-\uDFFF])/.test(
    text,
  );
}
