// The frame of gRPC around a message: one byte that says whether it is compressed, and four bytes
// of length. A stream of frames arrives in pieces of any size.

import { MalformedMessageError } from "./protobuf.ts";

const PREFIX_BYTES = 5;
/** Far above any answer to the store. A larger one does not come from etcd. */
const MESSAGE_MAX_BYTES = 64 << 20;

export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, PREFIX_BYTES);
  return framed;
}

/** Reassembles the messages. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #size = 0;
  /** How many bytes are needed before a message can be complete. */
  #wanted = PREFIX_BYTES;

  /**
   * Reports every message that is complete with this piece. After an exception, the reader must not
   * be used again.
   */
  take(piece: Buffer, onMessage: (message: Buffer) => void): void {
    this.#pieces.push(piece);
    this.#size += piece.length;
    // A large message arrives in many pieces. They are joined once, not for every piece.
    if (this.#size < this.#wanted) return;
    let buffer = this.#pieces.length === 1 ? piece : Buffer.concat(this.#pieces);
    this.#wanted = PREFIX_BYTES;
    while (buffer.length >= PREFIX_BYTES) {
      const length = buffer.readUInt32BE(1);
      if (buffer[0] !== 0 || length > MESSAGE_MAX_BYTES)
        throw new MalformedMessageError("The answer is not a plain gRPC message.");
      if (buffer.length < PREFIX_BYTES + length) {
        this.#wanted = PREFIX_BYTES + length;
        break;
      }
      onMessage(buffer.subarray(PREFIX_BYTES, PREFIX_BYTES + length));
      buffer = buffer.subarray(PREFIX_BYTES + length);
    }
    this.#pieces = buffer.length === 0 ? [] : [buffer];
    this.#size = buffer.length;
  }
}
