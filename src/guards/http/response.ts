// What the guard has to know of a response of node:http: whether it has ended, when it ends, and how to answer with a
// rejection.

import type { Refusal } from "./refusal.ts";

/** What is used of node:http's request and response; Express' are the same objects. */
export interface NodeResponse {
  readonly closed: boolean;
  readonly headersSent: boolean;
  readonly writableEnded: boolean;
  writeHead(status: number, headers: Record<string, string>): { end(body: string): unknown };
  once(event: "close" | "prefinish", listener: () => void): unknown;
  destroy(): unknown;
}

/** True when the response was written in full, or its connection was closed. */
export function hasEnded({ closed, writableEnded }: NodeResponse): boolean {
  return closed || writableEnded;
}

/**
 * Calls back, perhaps twice, when the response was written in full or its connection was closed. It does not wait until the
 * client has read the response: a client that stops reading would hold up the next holder.
 */
export function whenEnded(response: NodeResponse, listener: () => void): void {
  if (hasEnded(response)) {
    listener();
    return;
  }
  // Node emits "prefinish" when end() was called, and "close" for every response.
  response.once("prefinish", listener);
  response.once("close", listener);
}

/**
 * Answers with a rejection, unless something else has answered in the meantime. A response whose head was sent already, and
 * whose body the handler would have written, is cut off: the client must neither wait for it nor take it for a success.
 */
export function reject(
  response: NodeResponse,
  { status, headers, body }: Refusal,
  send = (): unknown =>
    // With a length, head and body leave in one write.
    response
      .writeHead(status, { ...headers, "Content-Length": `${Buffer.byteLength(body)}` })
      .end(body),
): void {
  if (hasEnded(response)) return;
  if (response.headersSent) response.destroy();
  else send();
}
