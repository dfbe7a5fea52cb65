// The part of the Redis protocol (RESP2) that the harness needs: it encodes commands and parses
// replies.

export type RedisReply = string | number | null | readonly RedisReply[];

/** A complete reply, and the offset at which the next one starts. */
export interface ParsedReply {
  readonly value: RedisReply;
  readonly error?: string;
  readonly end: number;
}

export function encodeCommand(words: readonly string[]): string {
  const parts = words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`);
  return `*${words.length}\r\n${parts.join("")}`;
}

/** Parses the reply at `start`. Returns undefined if it is not complete yet. */
export function parseReply(bytes: Buffer, start: number): ParsedReply | undefined {
  const lineEnd = bytes.indexOf("\r\n", start);
  if (lineEnd === -1) return undefined;
  const kind = String.fromCharCode(bytes[start] ?? 0);
  const text = bytes.toString("utf8", start + 1, lineEnd);
  const end = lineEnd + 2;
  switch (kind) {
    case "+":
      return { value: text, end };
    case "-":
      return { value: null, error: text, end };
    case ":":
      return { value: Number(text), end };
    case "$":
      return parseBulk(bytes, end, Number(text));
    case "*":
      return parseArray(bytes, end, Number(text));
    default:
      throw new Error(`Expected a Redis reply, got ${JSON.stringify(kind + text)}.`);
  }
}

function parseBulk(bytes: Buffer, start: number, length: number): ParsedReply | undefined {
  if (length === -1) return { value: null, end: start };
  const end = start + length + 2;
  if (bytes.length < end) return undefined;
  return { value: bytes.toString("utf8", start, start + length), end };
}

function parseArray(bytes: Buffer, start: number, count: number): ParsedReply | undefined {
  if (count === -1) return { value: null, end: start };
  const values: RedisReply[] = [];
  let end = start;
  for (let index = 0; index < count; index += 1) {
    const item = parseReply(bytes, end);
    if (item === undefined) return undefined;
    values.push(item.value);
    end = item.end;
  }
  return { value: values, end };
}
