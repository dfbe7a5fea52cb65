// gRPC's frame around a message: one byte (compressed or not), four bytes of length. Streams of frames arrive in pieces.

const PREFIX_BYTES = 5;
/** Far above anything that the store asks for; more is a sign that this is no etcd. */
const MESSAGE_MAX_BYTES = 64 << 20;

export function frame(message: Uint8Array): Buffer {
  const framed = Buffer.allocUnsafe(PREFIX_BYTES + message.length);
  framed[0] = 0;
  framed.writeUInt32BE(message.length, 1);
  framed.set(message, PREFIX_BYTES);
  return framed;
}

/** Puts the pieces together again. */
export class FrameReader {
  #rest: Buffer | undefined;

  /** Hands on every message that is complete with this piece. */
  take(piece: Buffer, onMessage: (message: Buffer) => void): void {
    let buffer = this.#rest === undefined ? piece : Buffer.concat([this.#rest, piece]);
    while (buffer.length >= PREFIX_BYTES) {
      const length = buffer.readUInt32BE(1);
      if (buffer[0] !== 0 || length > MESSAGE_MAX_BYTES)
        throw new Error("The answer is not a plain gRPC message.");
      if (buffer.length < PREFIX_BYTES + length) break;
      onMessage(buffer.subarray(PREFIX_BYTES, PREFIX_BYTES + length));
      buffer = buffer.subarray(PREFIX_BYTES + length);
    }
    this.#rest = buffer.length === 0 ? undefined : buffer;
  }
}
