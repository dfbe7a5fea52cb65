// Lua's own patterns: classes, sets, repetition, captures of texts and of positions. Neither balanced pairs nor back
// references, which our scripts do not use.

import { LuaError, type Value } from "./values.ts";

const CLASSES: Readonly<Record<string, RegExp>> = {
  a: /[A-Za-z]/,
  d: /[0-9]/,
  l: /[a-z]/,
  s: /[ \t\n\v\f\r]/,
  u: /[A-Z]/,
  w: /[A-Za-z0-9]/,
  x: /[0-9A-Fa-f]/,
};

interface Match {
  readonly start: number;
  readonly end: number;
  readonly captures: readonly Value[];
}

/** Searches from `from`, which counts from 0. */
export function search(text: string, pattern: string, from: number): Match | undefined {
  const isAnchored = pattern.startsWith("^");
  for (let start = from; start <= text.length; start += 1) {
    const matcher = new Matcher(text, pattern);
    const end = matcher.match(start, isAnchored ? 1 : 0);
    if (end !== undefined) return { start, end, captures: matcher.captures(start, end) };
    if (isAnchored) return undefined;
  }
  return undefined;
}

class Matcher {
  readonly #text: string;
  readonly #pattern: string;
  /** Where each capture begins and ends; "position" where it is empty, undefined while it is open. */
  readonly #captures: { from: number; to: number | "position" | undefined }[] = [];

  constructor(text: string, pattern: string) {
    this.#text = text;
    this.#pattern = pattern;
  }

  captures(start: number, end: number): readonly Value[] {
    if (this.#captures.length === 0) return [this.#text.slice(start, end)];
    return this.#captures.map(({ from, to }) => {
      if (to === undefined) throw new LuaError("unfinished capture");
      return to === "position" ? from + 1 : this.#text.slice(from, to);
    });
  }

  /** Where the match ends that begins at `at`, with the rest of the pattern. */
  match(at: number, rest: number): number | undefined {
    const pattern = this.#pattern;
    if (rest >= pattern.length) return at;
    if (pattern[rest] === "(") {
      const isPosition = pattern[rest + 1] === ")";
      this.#captures.push({ from: at, to: isPosition ? "position" : undefined });
      const end = this.match(at, rest + (isPosition ? 2 : 1));
      if (end === undefined) this.#captures.pop();
      return end;
    }
    if (pattern[rest] === ")") return this.#close(at, rest + 1);
    if (pattern[rest] === "$" && rest + 1 === pattern.length)
      return at === this.#text.length ? at : undefined;
    return this.#repeated(at, rest);
  }

  #close(at: number, rest: number): number | undefined {
    const open = this.#captures.findLast(({ to }) => to === undefined);
    if (open === undefined) throw new LuaError("invalid pattern capture");
    open.to = at;
    const end = this.match(at, rest);
    if (end === undefined) open.to = undefined;
    return end;
  }

  #repeated(at: number, rest: number): number | undefined {
    const behind = this.#behindClass(rest);
    switch (this.#pattern[behind]) {
      case "*":
      case "+": {
        let most = at;
        while (this.#fits(most, rest, behind)) most += 1;
        const least = this.#pattern[behind] === "+" ? at + 1 : at;
        for (let end = most; end >= least; end -= 1) {
          const found = this.match(end, behind + 1);
          if (found !== undefined) return found;
        }
        return undefined;
      }
      case "-":
        for (let end = at; ; end += 1) {
          const found = this.match(end, behind + 1);
          if (found !== undefined) return found;
          if (!this.#fits(end, rest, behind)) return undefined;
        }
      case "?": {
        const found = this.#fits(at, rest, behind) ? this.match(at + 1, behind + 1) : undefined;
        return found ?? this.match(at, behind + 1);
      }
      default:
        return this.#fits(at, rest, behind) ? this.match(at + 1, behind) : undefined;
    }
  }

  /** Where the single class at `from` ends. */
  #behindClass(from: number): number {
    const pattern = this.#pattern;
    if (pattern[from] === "%") {
      if ("bf123456789".includes(pattern[from + 1] ?? "b"))
        throw new LuaError("this pattern is not in our Lua");
      return from + 2;
    }
    if (pattern[from] !== "[") return from + 1;
    let end = from + (pattern[from + 1] === "^" ? 2 : 1);
    // The first letter of a set may be a bracket itself.
    do end += pattern[end] === "%" ? 2 : 1;
    while (end < pattern.length && pattern[end] !== "]");
    if (end >= pattern.length) throw new LuaError("malformed pattern (missing ']')");
    return end + 1;
  }

  #fits(at: number, from: number, behind: number): boolean {
    const letter = this.#text[at];
    if (letter === undefined) return false;
    const pattern = this.#pattern;
    if (pattern[from] === ".") return true;
    if (pattern[from] === "%") return isOf(letter, pattern[from + 1] ?? "");
    if (pattern[from] === "[") return isIn(letter, pattern.slice(from + 1, behind - 1));
    return letter === pattern[from];
  }
}

function isOf(letter: string, name: string): boolean {
  const found = CLASSES[name.toLowerCase()];
  if (found === undefined) return letter === name;
  return found.test(letter) === (name === name.toLowerCase());
}

function isIn(letter: string, set: string): boolean {
  const isInverted = set.startsWith("^");
  for (let at = isInverted ? 1 : 0; at < set.length; at += 1) {
    if (set[at] === "%") {
      at += 1;
      if (isOf(letter, set[at] ?? "")) return !isInverted;
    } else if (set[at + 1] === "-" && at + 2 < set.length) {
      if (letter >= (set[at] ?? "") && letter <= (set[at + 2] ?? "")) return !isInverted;
      at += 2;
    } else if (letter === set[at]) return !isInverted;
  }
  return isInverted;
}
