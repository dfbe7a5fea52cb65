// Extracts code blocks from the documentation, so that the cases test what users copy.

/** The TypeScript blocks of a page. */
export function tsBlocks(page: string): string[] {
  return blocks(page).flatMap(({ language, code }) => (language === "ts" ? [code] : []));
}

/** The block whose first line is a comment with this name. */
export function fileBlock(page: string, name: string): string {
  const found = blocks(page).find(({ code }) => code.startsWith(`// ${name}\n`));
  if (found === undefined)
    throw new Error(`The page has no code block that begins with "// ${name}".`);
  return found.code;
}

function blocks(page: string): { language: string; code: string }[] {
  return [...page.matchAll(/^```(\w+)\n([\s\S]*?)^```$/gm)].map(([, language = "", code = ""]) => ({
    language,
    code,
  }));
}
