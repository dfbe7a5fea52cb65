// Lists of texts as values of a statement.

/** As PostgreSQL writes a list. */
export function listOf(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
