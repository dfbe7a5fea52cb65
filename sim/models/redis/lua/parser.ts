// Parses the part of Lua 5.1 that our scripts use: no methods, no varargs, no repeat, no long
// strings. Anything else is rejected.

import type { Body, Call, Expression, Item, Operator, Statement } from "./ast.ts";
import { type Token, tokenize } from "./lexer.ts";

export function parse(source: string): readonly Statement[] {
  return new Parser(tokenize(source)).chunk();
}

/** The left and right binding power of each operator. */
const BINDING: Readonly<Record<Operator, readonly [left: number, right: number]>> = {
  or: [1, 1],
  and: [2, 2],
  "<": [3, 3],
  ">": [3, 3],
  "<=": [3, 3],
  ">=": [3, 3],
  "~=": [3, 3],
  "==": [3, 3],
  "..": [5, 4],
  "+": [6, 6],
  "-": [6, 6],
  "*": [7, 7],
  "/": [7, 7],
  "%": [7, 7],
};
const UNARY = 8;

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  chunk(): readonly Statement[] {
    const block = this.#block();
    if (this.#next.kind !== "end") throw this.#unexpected();
    return block;
  }

  get #next(): Token {
    return this.#tokens[this.#at] as Token;
  }

  #take(): Token {
    const token = this.#next;
    this.#at += 1;
    return token;
  }

  #is(word: string): boolean {
    return this.#next.kind === "word" && this.#next.text === word;
  }

  #took(word: string): boolean {
    if (!this.#is(word)) return false;
    this.#at += 1;
    return true;
  }

  #expect(word: string): void {
    if (!this.#took(word)) throw this.#unexpected(word);
  }

  #name(): string {
    if (this.#next.kind !== "name") throw this.#unexpected("a name");
    return this.#take().text;
  }

  #unexpected(wanted = "something else"): Error {
    const { line, text } = this.#next;
    return new Error(`line ${line}: expected ${wanted}, found ${text || "the end"}`);
  }

  #block(): Statement[] {
    const block: Statement[] = [];
    while (this.#next.kind !== "end" && !["end", "else", "elseif"].some((word) => this.#is(word))) {
      const statement = this.#statement();
      this.#took(";");
      block.push(statement);
      if (statement.is === "return" || statement.is === "break") break;
    }
    return block;
  }

  #blockToEnd(): Statement[] {
    const block = this.#block();
    this.#expect("end");
    return block;
  }

  #statement(): Statement {
    if (this.#took("local")) return this.#local();
    if (this.#took("if")) return this.#if();
    if (this.#took("for")) return this.#for();
    if (this.#took("break")) return { is: "break" };
    if (this.#took("do")) return { is: "do", block: this.#blockToEnd() };
    if (this.#took("while")) {
      const test = this.#expression();
      this.#expect("do");
      return { is: "while", test, block: this.#blockToEnd() };
    }
    if (this.#took("return")) {
      const isBare =
        this.#next.kind === "end" || ["end", "else", "elseif", ";"].some((word) => this.#is(word));
      return { is: "return", values: isBare ? [] : this.#expressions() };
    }
    const first = this.#suffixed();
    if (first.is === "call" && !this.#is("=") && !this.#is(",")) return { is: "call", call: first };
    const targets = [first];
    while (this.#took(",")) targets.push(this.#suffixed());
    if (targets.some(({ is }) => is !== "name" && is !== "index")) throw this.#unexpected();
    this.#expect("=");
    return { is: "assign", targets, values: this.#expressions() };
  }

  #local(): Statement {
    if (this.#took("function"))
      return { is: "localFunction", name: this.#name(), body: this.#body() };
    const names = [this.#name()];
    while (this.#took(",")) names.push(this.#name());
    return { is: "local", names, values: this.#took("=") ? this.#expressions() : [] };
  }

  #if(): Statement {
    const branches: { test: Expression | undefined; block: Statement[] }[] = [];
    do {
      const test = this.#expression();
      this.#expect("then");
      branches.push({ test, block: this.#block() });
    } while (this.#took("elseif"));
    if (this.#took("else")) branches.push({ test: undefined, block: this.#block() });
    this.#expect("end");
    return { is: "if", branches };
  }

  #for(): Statement {
    const names = [this.#name()];
    if (this.#took("=")) {
      const from = this.#expression();
      this.#expect(",");
      const to = this.#expression();
      const step = this.#took(",") ? this.#expression() : undefined;
      this.#expect("do");
      return { is: "count", name: names[0] as string, from, to, step, block: this.#blockToEnd() };
    }
    while (this.#took(",")) names.push(this.#name());
    this.#expect("in");
    const over = this.#expressions();
    this.#expect("do");
    return { is: "each", names, over, block: this.#blockToEnd() };
  }

  #body(): Body {
    this.#expect("(");
    const parameters: string[] = [];
    if (!this.#is(")")) {
      do parameters.push(this.#name());
      while (this.#took(","));
    }
    this.#expect(")");
    return { parameters, block: this.#blockToEnd() };
  }

  #expressions(): Expression[] {
    const list = [this.#expression()];
    while (this.#took(",")) list.push(this.#expression());
    return list;
  }

  #expression(limit = 0): Expression {
    let left = this.#unary();
    for (;;) {
      const { kind, text } = this.#next;
      const binding = kind === "word" ? BINDING[text as Operator] : undefined;
      if (binding === undefined || binding[0] <= limit) return left;
      this.#take();
      left = {
        is: "binary",
        operator: text as Operator,
        left,
        right: this.#expression(binding[1]),
      };
    }
  }

  #unary(): Expression {
    for (const operator of ["not", "#", "-"] as const)
      if (this.#took(operator)) return { is: "unary", operator, of: this.#expression(UNARY) };
    return this.#simple();
  }

  #simple(): Expression {
    const token = this.#next;
    if (token.kind === "number" || token.kind === "string") {
      this.#take();
      return { is: "constant", value: token.kind === "number" ? token.value : token.text };
    }
    if (this.#took("nil")) return { is: "constant", value: undefined };
    if (this.#took("true")) return { is: "constant", value: true };
    if (this.#took("false")) return { is: "constant", value: false };
    if (this.#took("function")) return { is: "function", body: this.#body() };
    if (this.#is("{")) return this.#table();
    return this.#suffixed();
  }

  #suffixed(): Expression {
    let left: Expression;
    const { line } = this.#next;
    if (this.#took("(")) {
      left = { is: "single", of: this.#expression() };
      this.#expect(")");
    } else {
      left = { is: "name", name: this.#name(), line };
    }
    for (;;) {
      if (this.#took(".")) {
        left = { is: "index", table: left, key: { is: "constant", value: this.#name() } };
      } else if (this.#took("[")) {
        left = { is: "index", table: left, key: this.#expression() };
        this.#expect("]");
      } else if (this.#is("(")) {
        left = this.#call(left);
      } else {
        return left;
      }
    }
  }

  #call(callee: Expression): Call {
    this.#expect("(");
    const args = this.#is(")") ? [] : this.#expressions();
    this.#expect(")");
    return { is: "call", callee, args };
  }

  #table(): Expression {
    this.#expect("{");
    const items: Item[] = [];
    while (!this.#took("}")) {
      items.push(this.#item());
      if (!this.#took(",") && !this.#took(";") && !this.#is("}")) throw this.#unexpected("}");
    }
    return { is: "table", items };
  }

  #item(): Item {
    if (this.#took("[")) {
      const key = this.#expression();
      this.#expect("]");
      this.#expect("=");
      return { key, value: this.#expression() };
    }
    const behind = this.#tokens[this.#at + 1];
    if (this.#next.kind === "name" && behind?.kind === "word" && behind.text === "=") {
      const key: Expression = { is: "constant", value: this.#name() };
      this.#expect("=");
      return { key, value: this.#expression() };
    }
    return { key: undefined, value: this.#expression() };
  }
}
