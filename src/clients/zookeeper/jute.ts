// Jute, the encoding of ZooKeeper's protocol: big-endian integers, and texts and buffers that are
// preceded by their length. Input is untrusted, so every length is checked before it is used.

/** The received bytes are not a message of ZooKeeper. */
export class ProtocolError extends Error {}

export class JuteWriter {
  #bytes: Buffer;
  #end: number;

  /** The first four bytes are reserved for the length of the frame. */
  constructor(sizeHint = 256) {
    this.#bytes = Buffer.allocUnsafe(sizeHint);
    this.#end = 4;
  }

  int(value: number): this {
    this.#reserve(4);
    this.#end = this.#bytes.writeInt32BE(value, this.#end);
    return this;
  }

  long(value: bigint): this {
    this.#reserve(8);
    this.#end = this.#bytes.writeBigInt64BE(value, this.#end);
    return this;
  }

  bool(value: boolean): this {
    this.#reserve(1);
    this.#end = this.#bytes.writeUInt8(value ? 1 : 0, this.#end);
    return this;
  }

  text(value: string): this {
    const length = Buffer.byteLength(value);
    this.int(length);
    this.#reserve(length);
    this.#end += this.#bytes.write(value, this.#end, "utf8");
    return this;
  }

  data(value: string | Uint8Array): this {
    return typeof value === "string" ? this.text(value) : this.buffer(value);
  }

  buffer(value: Uint8Array): this {
    this.int(value.length);
    this.#reserve(value.length);
    this.#bytes.set(value, this.#end);
    this.#end += value.length;
    return this;
  }

  /** The frame: the length, then everything that was written. */
  frame(): Buffer {
    this.#bytes.writeInt32BE(this.#end - 4, 0);
    return this.#bytes.subarray(0, this.#end);
  }

  #reserve(more: number): void {
    const needed = this.#end + more;
    if (needed <= this.#bytes.length) return;
    const larger = Buffer.allocUnsafe(Math.max(needed, this.#bytes.length * 2));
    this.#bytes.copy(larger, 0, 0, this.#end);
    this.#bytes = larger;
  }
}

export class JuteReader {
  readonly #bytes: Buffer;
  #at = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#skip(4));
  }

  long(): bigint {
    return this.#bytes.readBigInt64BE(this.#skip(8));
  }

  /** Skips this many bytes. */
  pass(length: number): void {
    this.#skip(length);
  }

  bool(): boolean {
    return this.#bytes.readUInt8(this.#skip(1)) !== 0;
  }

  text(): string {
    return this.#sized().toString("utf8");
  }

  buffer(): Buffer {
    return this.#sized();
  }

  texts(): string[] {
    const count = this.int();
    // Each text takes at least four bytes. A larger count must not allocate memory.
    if (count > this.left / 4) throw new ProtocolError(`a list of ${count} in ${this.left} bytes`);
    return Array.from({ length: Math.max(count, 0) }, () => this.text());
  }

  /** A length of -1 means that there is no value, which is read as an empty one. */
  #sized(): Buffer {
    const length = Math.max(this.int(), 0);
    const start = this.#skip(length);
    return this.#bytes.subarray(start, start + length);
  }

  #skip(length: number): number {
    const start = this.#at;
    if (length > this.left) throw new ProtocolError(`${length} bytes wanted, ${this.left} left`);
    this.#at += length;
    return start;
  }
}

/**
 * A listing of a hundred thousand long names is smaller. The first bytes of another protocol are
 * usually a larger number.
 */
const FRAME_MAX_BYTES = 64 << 20;

/** Splits received chunks of any size into frames. */
export class FrameReader {
  #pieces: Buffer[] = [];
  #size = 0;

  /** Returns the frames that are complete now. */
  *take(chunk: Buffer): Generator<Buffer> {
    this.#pieces.push(chunk);
    this.#size += chunk.length;
    // A large frame comes in many pieces. They are joined once, not with every piece.
    if (this.#size < this.#wanted()) return;
    const bytes = this.#pieces.length === 1 ? chunk : Buffer.concat(this.#pieces);
    let at = 0;
    while (bytes.length - at >= 4) {
      const length = frameLength(bytes, at);
      if (bytes.length - at < 4 + length) break;
      yield bytes.subarray(at + 4, at + 4 + length);
      at += 4 + length;
    }
    const rest = bytes.subarray(at);
    this.#pieces = rest.length === 0 ? [] : [rest];
    this.#size = rest.length;
  }

  /** How many bytes the first frame needs, as far as that is known. */
  #wanted(): number {
    const first = this.#pieces[0];
    return first === undefined || first.length < 4 ? 4 : 4 + frameLength(first, 0);
  }
}

function frameLength(bytes: Buffer, at: number): number {
  const length = bytes.readInt32BE(at);
  if (length < 0 || length > FRAME_MAX_BYTES) {
    throw new ProtocolError(`a frame of ${length} bytes`);
  }
  return length;
}
