// Operations on a response of node:http: whether it has ended, when it ends, and how to send a
// rejection.

import type { Refusal } from "./refusal.ts";

/**
 * The part of a node:http response that the guard uses. Express and Fastify use the same objects.
 */
export interface NodeResponse {
  /** Whether the connection was closed. */
  readonly closed: boolean;
  /** Whether the head of the response was sent. */
  readonly headersSent: boolean;
  /** Whether end() was called. */
  readonly writableEnded: boolean;
  /** Sets status and headers. The result takes the body. */
  writeHead(status: number, headers: Record<string, string>): { end(body: string): unknown };
  /** Calls back when the response is complete, or its connection was closed. */
  once(event: "close" | "prefinish", listener: () => void): unknown;
  /** Closes the connection. */
  destroy(): unknown;
}

/** True when the response was written in full, or its connection was closed. */
export function hasEnded({ closed, writableEnded }: NodeResponse): boolean {
  return closed || writableEnded;
}

/**
 * Calls back, perhaps twice, when the response was written in full or its connection was closed. It
 * does not wait until the client has read the response, because a client that stops reading would
 * block the next holder.
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
 * Sends a rejection, unless other code has answered in the meantime. If the head of the response
 * was already sent, the connection is closed, so that the client neither waits for the body nor
 * takes the response for a success.
 */
export function reject(
  response: NodeResponse,
  { status, headers, body }: Refusal,
  send = (): unknown =>
    // With a length, Node sends head and body in one write.
    response
      .writeHead(status, { ...headers, "Content-Length": `${Buffer.byteLength(body)}` })
      .end(body),
): void {
  if (hasEnded(response)) return;
  if (response.headersSent) response.destroy();
  else send();
}
