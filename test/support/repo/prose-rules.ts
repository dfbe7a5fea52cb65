// Rules about prose: the width of comments, and phrases that make text hard to read. A phrase is
// listed because a plainer one is almost always better. Rephrase the sentence; do not work around
// the pattern.
import type { Rule, SourceFile } from "./tidy-rules.ts";

const COLUMNS_MAX = 100;

/** Each pattern, and what to write instead. */
const BANNED: readonly { readonly pattern: RegExp; readonly instead: string }[] = [
  { pattern: /\b(whoever|whomever|somebody|nobody)\b/i, instead: "name the actor" },
  {
    pattern: /\bwho (waits|holds|asks|comes|has|takes|frees|dies|wins)\b/i,
    instead: "name the actor: the waiter, the holder, a process",
  },
  { pattern: /\bso (long|many|often|much)[,.;:)]/i, instead: "this long, that many, this often" },
  { pattern: /\bfor so (long|many)\b/i, instead: "this long, that many" },
  { pattern: /\b(is|are|be|was|were|been) told\b/i, instead: "is notified, learns" },
  { pattern: /\btells? (of|it|them|who|whom|on)\b/i, instead: "reports, notifies" },
  { pattern: /\btold apart\b/i, instead: "distinguished" },
  { pattern: /\bhears? of\b/i, instead: "learns about" },
  { pattern: /\bbehind (it|them|that|this|its)\b/i, instead: "after" },
  { pattern: /\ba look\b|\blooks again\b/i, instead: "check, read, poll" },
  { pattern: /\b(that are|is|are) none\b/i, instead: "is not one, is a no-op, does not exist" },
  { pattern: /\bmeanwhile\b/i, instead: "in the meantime" },
  { pattern: /\bof its own accord\b/i, instead: "by itself" },
  { pattern: /\bin vain\b/i, instead: "without effect" },
  { pattern: /\bmend(s|ed|ing)?\b/i, instead: "fix" },
];

/** The lines that consist of a comment only. */
function findCommentLines(text: string): { readonly line: number; readonly text: string }[] {
  const found: { line: number; text: string }[] = [];
  let inBlock = false;
  for (const [index, content] of text.split("\n").entries()) {
    const trimmed = content.trim();
    if (inBlock || /^(\/\/|\/\*)/.test(trimmed)) found.push({ line: index + 1, text: content });
    if (/^\/\*/.test(trimmed)) inBlock = true;
    if (trimmed.includes("*/")) inBlock = false;
  }
  return found;
}

/** The titles of tests and groups of tests. */
function findTitles(text: string): { readonly line: number; readonly text: string }[] {
  const pattern = /\b(?:test|it|describe)(?:\.\w+)*(?:\([^"`]*\))?\(\s*(["`])((?:(?!\1).)*)\1/g;
  return [...text.matchAll(pattern)].map((match) => ({
    line: text.slice(0, match.index).split("\n").length,
    text: match[2] ?? "",
  }));
}

function findPhrases({ path, text }: SourceFile): string[] {
  return [...findCommentLines(text), ...findTitles(text)].flatMap((each) =>
    BANNED.filter(({ pattern }) => pattern.test(each.text)).map(
      ({ pattern, instead }) =>
        `${path}:${each.line}: "${pattern.exec(each.text)?.[0]}" (${instead}): ${each.text.trim()}`,
    ),
  );
}

export const proseRules: readonly Rule[] = [
  {
    name: "comments are at most 100 columns wide",
    appliesTo: () => true,
    findFaults: ({ path, text }) =>
      findCommentLines(text)
        .filter((each) => each.text.length > COLUMNS_MAX)
        .map((each) => `${path}:${each.line}: ${each.text.length} columns`),
  },
  {
    name: "comments and test titles name the actor and use plain words",
    // This file lists the phrases, and the tidy test plants them.
    appliesTo: (path) => !/^test\/(repo\/tidy|support\/repo\/prose)/.test(path),
    findFaults: findPhrases,
  },
  {
    name: "objects are written out, not spread to fit a line",
    appliesTo: (path) => !path.startsWith("test/repo/tidy"),
    findFaults: ({ path, text }) =>
      [...text.matchAll(/\{\s*\.\.\.\{/g)].map(
        (match) =>
          `${path}:${text.slice(0, match.index).split("\n").length}: an object literal is spread`,
      ),
  },
];
