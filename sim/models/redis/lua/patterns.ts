// Matches Lua patterns: classes, sets, repetition, and captures of texts and positions. Balanced
// pairs and back references are not supported, because our scripts do not use them.

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

/** Searches from index `from`, counted from 0. */
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
  /**
   * Where each capture begins and ends. The end is "position" for an empty capture and undefined
   * while the capture is open.
   */
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

  /** Matches the rest of the pattern at `at`, and returns where the match ends. */
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
    const classEnd = this.#endOfClass(rest);
    switch (this.#pattern[classEnd]) {
      case "*":
      case "+": {
        let most = at;
        while (this.#fits(most, rest, classEnd)) most += 1;
        const least = this.#pattern[classEnd] === "+" ? at + 1 : at;
        for (let end = most; end >= least; end -= 1) {
          const found = this.match(end, classEnd + 1);
          if (found !== undefined) return found;
        }
        return undefined;
      }
      case "-":
        for (let end = at; ; end += 1) {
          const found = this.match(end, classEnd + 1);
          if (found !== undefined) return found;
          if (!this.#fits(end, rest, classEnd)) return undefined;
        }
      case "?": {
        const found = this.#fits(at, rest, classEnd) ? this.match(at + 1, classEnd + 1) : undefined;
        return found ?? this.match(at, classEnd + 1);
      }
      default:
        return this.#fits(at, rest, classEnd) ? this.match(at + 1, classEnd) : undefined;
    }
  }

  /** Returns where the single class at `from` ends. */
  #endOfClass(from: number): number {
    const pattern = this.#pattern;
    if (pattern[from] === "%") {
      if ("bf123456789".includes(pattern[from + 1] ?? "b"))
        throw new LuaError("this pattern is not supported by this Lua");
      return from + 2;
    }
    if (pattern[from] !== "[") return from + 1;
    let end = from + (pattern[from + 1] === "^" ? 2 : 1);
    // The first character of a set may itself be a bracket.
    do end += pattern[end] === "%" ? 2 : 1;
    while (end < pattern.length && pattern[end] !== "]");
    if (end >= pattern.length) throw new LuaError("malformed pattern (missing ']')");
    return end + 1;
  }

  #fits(at: number, from: number, classEnd: number): boolean {
    const char = this.#text[at];
    if (char === undefined) return false;
    const pattern = this.#pattern;
    if (pattern[from] === ".") return true;
    if (pattern[from] === "%") return matchesClass(char, pattern[from + 1] ?? "");
    if (pattern[from] === "[") return matchesSet(char, pattern.slice(from + 1, classEnd - 1));
    return char === pattern[from];
  }
}

function matchesClass(char: string, name: string): boolean {
  const found = CLASSES[name.toLowerCase()];
  if (found === undefined) return char === name;
  return found.test(char) === (name === name.toLowerCase());
}

function matchesSet(char: string, set: string): boolean {
  const isInverted = set.startsWith("^");
  for (let at = isInverted ? 1 : 0; at < set.length; at += 1) {
    if (set[at] === "%") {
      at += 1;
      if (matchesClass(char, set[at] ?? "")) return !isInverted;
    } else if (set[at + 1] === "-" && at + 2 < set.length) {
      if (char >= (set[at] ?? "") && char <= (set[at + 2] ?? "")) return !isInverted;
      at += 2;
    } else if (char === set[at]) return !isInverted;
  }
  return isInverted;
}
