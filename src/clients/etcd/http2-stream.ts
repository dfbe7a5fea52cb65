// One gRPC exchange on one HTTP/2 stream: its messages, and the status that ends it.

import { type ClientHttp2Stream, constants, type IncomingHttpHeaders } from "node:http2";
import { FrameReader } from "./grpc-frames.ts";
import { EtcdLinkError, EtcdStatusError } from "./transport.ts";

export interface ExchangeEvents {
  onMessage(message: Buffer): void;
  /** `error` is undefined if the server ended the exchange with the status OK. */
  onEnd(error: Error | undefined): void;
}

/** `isConnected`: whether anything can have reached the server when the stream breaks. */
export function listen(
  stream: ClientHttp2Stream,
  isConnected: () => boolean,
  events: ExchangeEvents,
): void {
  const frames = new FrameReader();
  let status: IncomingHttpHeaders | undefined;
  let broken: unknown;
  let isGivenUp = false;
  const fail = (reason: unknown): void => {
    broken ??= reason;
    isGivenUp = true;
    stream.close(constants.NGHTTP2_CANCEL);
  };
  stream.on("response", (headers) => {
    if ("grpc-status" in headers) status = headers;
    else if (headers[":status"] !== 200) fail(new Error(`HTTP status ${headers[":status"]}`));
  });
  stream.on("trailers", (headers) => {
    status = headers;
  });
  stream.on("data", (piece: Buffer) => {
    // A stream that was cancelled may still deliver what had arrived before.
    if (isGivenUp) return;
    try {
      frames.take(piece, (message) => events.onMessage(message));
    } catch (error) {
      fail(error);
    }
  });
  stream.on("error", (error) => {
    broken ??= error;
  });
  stream.on("close", () => {
    if (status === undefined || isGivenUp) events.onEnd(linkError(stream, broken, isConnected()));
    else events.onEnd(endOf(status));
  });
}

/** The gRPC status UNKNOWN, also used for codes that gRPC does not define. */
const UNKNOWN = 2;
const CODE_MAX = 16;

/**
 * Undefined for the status OK. A missing or malformed status does not say whether the request was
 * applied.
 */
export function endOf(headers: IncomingHttpHeaders): Error | undefined {
  const said = headers["grpc-status"];
  if (typeof said !== "string" || !/^[0-9]{1,3}$/.test(said))
    return new EtcdLinkError("the answer has no gRPC status", { sent: true });
  if (Number(said) === 0) return undefined;
  const code = Number(said) > CODE_MAX ? UNKNOWN : Number(said);
  const text = String(headers["grpc-message"] ?? "");
  try {
    return new EtcdStatusError(code, decodeURIComponent(text));
  } catch {
    return new EtcdStatusError(code, text);
  }
}

function linkError(stream: ClientHttp2Stream, broken: unknown, isConnected: boolean): Error {
  const refused = stream.rstCode === constants.NGHTTP2_REFUSED_STREAM;
  const said = broken instanceof Error ? broken.message : "the stream was closed";
  return new EtcdLinkError(said, { sent: isConnected && !refused, cause: broken });
}
