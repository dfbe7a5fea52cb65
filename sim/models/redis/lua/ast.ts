// The syntax tree of a Lua script.

export type Operator =
  | ("or" | "and" | "<" | ">" | "<=" | ">=" | "~=" | "==")
  | (".." | "+" | "-" | "*" | "/" | "%");

export type Expression =
  | { readonly is: "constant"; readonly value: undefined | boolean | number | string }
  | { readonly is: "name"; readonly name: string; readonly line: number }
  | { readonly is: "index"; readonly table: Expression; readonly key: Expression }
  | Call
  | { readonly is: "function"; readonly body: Body }
  | { readonly is: "table"; readonly items: readonly Item[] }
  | {
      readonly is: "binary";
      readonly operator: Operator;
      readonly left: Expression;
      readonly right: Expression;
    }
  | { readonly is: "unary"; readonly operator: "not" | "#" | "-"; readonly of: Expression }
  /** An expression in brackets: one value, even if a call returns several. */
  | { readonly is: "single"; readonly of: Expression };

export interface Call {
  readonly is: "call";
  readonly callee: Expression;
  readonly args: readonly Expression[];
}

export interface Item {
  /** Undefined for the next list index. */
  readonly key: Expression | undefined;
  readonly value: Expression;
}

export interface Body {
  readonly parameters: readonly string[];
  readonly block: readonly Statement[];
}

export type Statement =
  | {
      readonly is: "local";
      readonly names: readonly string[];
      readonly values: readonly Expression[];
    }
  | { readonly is: "localFunction"; readonly name: string; readonly body: Body }
  | {
      readonly is: "assign";
      readonly targets: readonly Expression[];
      readonly values: readonly Expression[];
    }
  | { readonly is: "call"; readonly call: Call }
  | {
      readonly is: "if";
      readonly branches: readonly {
        readonly test: Expression | undefined;
        readonly block: readonly Statement[];
      }[];
    }
  | { readonly is: "while"; readonly test: Expression; readonly block: readonly Statement[] }
  | {
      readonly is: "count";
      readonly name: string;
      readonly from: Expression;
      readonly to: Expression;
      readonly step: Expression | undefined;
      readonly block: readonly Statement[];
    }
  | {
      readonly is: "each";
      readonly names: readonly string[];
      readonly over: readonly Expression[];
      readonly block: readonly Statement[];
    }
  | { readonly is: "do"; readonly block: readonly Statement[] }
  | { readonly is: "return"; readonly values: readonly Expression[] }
  | { readonly is: "break" };
