// Text as every backend will store it: its size in UTF-8, and whether it can be expressed in UTF-8 at all.

const encoder = new TextEncoder();

export function utf8Length(text: string): number {
  return encoder.encode(text).length;
}

/** Half of a surrogate pair has no form in UTF-8: it would come back as another text. */
export function hasLoneSurrogate(text: string): boolean {
  return /(?:[\uD800-\uDBFF](?![\uDC00-\uDFFF]))|(?:(?<![\uD800-\uDBFF])[\uDC00-\uDFFF])/.test(
    text,
  );
}
