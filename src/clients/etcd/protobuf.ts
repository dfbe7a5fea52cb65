// The parts of the protobuf encoding that etcd's messages use: varints, byte strings and nested
// messages. 64-bit numbers are bigints throughout, because a revision is a token and must stay
// exact.

const LOW_32 = 0xffff_ffffn;
/**
 * Our own transactions nest about ten messages. Without a limit, a message of a megabyte could
 * exhaust the stack.
 */
const DEPTH_MAX = 64;

/** Not a message that etcd would send. Whether the request was applied is unknown. */
export class MalformedMessageError extends Error {}

/** Writes one message into a buffer that grows as needed. */
export class Writer {
  #buffer: Buffer = Buffer.allocUnsafe(512);
  #at = 0;

  /** A copy of the message so far. */
  finish(): Buffer {
    return Buffer.from(this.#buffer.subarray(0, this.#at));
  }

  /** A number below 2^31. Zero is written too, because in a `oneof` it selects the field. */
  uint(field: number, value: number): void {
    this.#reserve(10);
    this.#varint(field << 3);
    this.#varint(value);
  }

  int64(field: number, value: bigint): void {
    this.#reserve(15);
    this.#varint(field << 3);
    let low = Number(value & LOW_32);
    let high = Number((value >> 32n) & LOW_32);
    while (high !== 0 || low > 0x7f) {
      this.#buffer[this.#at++] = (low & 0x7f) | 0x80;
      low = ((low >>> 7) | (high << 25)) >>> 0;
      high >>>= 7;
    }
    this.#buffer[this.#at++] = low;
  }

  flag(field: number, value: boolean | undefined): void {
    if (value === true) this.uint(field, 1);
  }

  bytes(field: number, value: Uint8Array): void {
    this.#reserve(10 + value.length);
    this.#varint((field << 3) | 2);
    this.#varint(value.length);
    this.#buffer.set(value, this.#at);
    this.#at += value.length;
  }

  text(field: number, value: string): void {
    this.bytes(field, Buffer.from(value));
  }

  message(field: number, write: (writer: Writer) => void): void {
    this.#reserve(10);
    this.#varint((field << 3) | 2);
    // Most messages are short. One byte is reserved for the length; a longer message is moved.
    const lengthAt = this.#at++;
    write(this);
    const length = this.#at - lengthAt - 1;
    const extra = varintLength(length) - 1;
    if (extra > 0) {
      this.#reserve(extra);
      this.#buffer.copyWithin(lengthAt + 1 + extra, lengthAt + 1, this.#at);
    }
    this.#at = lengthAt;
    this.#varint(length);
    this.#at += length;
  }

  #varint(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.#buffer[this.#at++] = (rest & 0x7f) | 0x80;
      rest >>>= 7;
    }
    this.#buffer[this.#at++] = rest;
  }

  #reserve(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe(Math.max(this.#buffer.length * 2, this.#at + bytes));
    larger.set(this.#buffer.subarray(0, this.#at));
    this.#buffer = larger;
  }
}

/**
 * Reads one message field by field: `while (reader.next()) switch (reader.field) ...`. Unread
 * fields are skipped.
 */
export class Reader {
  field = 0;
  readonly #buffer: Buffer;
  readonly #end: number;
  #at: number;
  #type = 0;
  #isRead = true;
  readonly #depth: number;

  constructor(message: Uint8Array, start = 0, end: number = message.length, depth = 0) {
    this.#buffer = Buffer.isBuffer(message)
      ? message
      : Buffer.from(message.buffer, message.byteOffset, message.byteLength);
    this.#at = start;
    this.#end = end;
    this.#depth = depth;
  }

  next(): boolean {
    if (!this.#isRead) this.#skip();
    if (this.#at >= this.#end) return false;
    const tag = Number(this.#varint());
    // A larger tag would be truncated to 32 bits and read as that of another field.
    if (tag < 8 || tag > 0xffff_ffff)
      throw new MalformedMessageError("A message of etcd has an impossible field number.");
    this.field = tag >>> 3;
    this.#type = tag & 7;
    this.#isRead = false;
    return true;
  }

  /** Signed, like all 64-bit numbers in the messages that we read. */
  int64(): bigint {
    this.#expect(0);
    return BigInt.asIntN(64, this.#varint());
  }

  flag(): boolean {
    return this.int64() !== 0n;
  }

  bytes(): Buffer {
    this.#expect(2);
    const [from, to] = this.#delimited();
    return this.#buffer.subarray(from, to);
  }

  text(): string {
    return this.bytes().toString("utf8");
  }

  message(): Reader {
    this.#expect(2);
    const [from, to] = this.#delimited();
    if (this.#depth >= DEPTH_MAX)
      throw new MalformedMessageError("A message of etcd is nested too deeply.");
    return new Reader(this.#buffer, from, to, this.#depth + 1);
  }

  #expect(type: number): void {
    if (this.#type !== type)
      throw new MalformedMessageError("A message of etcd has a field of the wrong type.");
    this.#isRead = true;
  }

  #delimited(): [from: number, to: number] {
    const length = Number(this.#varint());
    const from = this.#at;
    if (length > this.#end - from) throw new MalformedMessageError("A message of etcd is cut off.");
    this.#at = from + length;
    return [from, this.#at];
  }

  #varint(): bigint {
    let low = 0;
    let high = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      const byte = this.#at < this.#end ? this.#buffer[this.#at++] : undefined;
      if (byte === undefined) throw new MalformedMessageError("A message of etcd is cut off.");
      const bits = byte & 0x7f;
      if (shift < 28) low |= bits << shift;
      else if (shift === 28) {
        low |= bits << 28;
        high |= bits >>> 4;
      } else high |= bits << (shift - 32);
      if (byte < 0x80) {
        return high === 0 ? BigInt(low >>> 0) : (BigInt(high >>> 0) << 32n) | BigInt(low >>> 0);
      }
    }
    throw new MalformedMessageError("A message of etcd has a number that is too long.");
  }

  #skip(): void {
    this.#isRead = true;
    if (this.#type === 0) this.#varint();
    else if (this.#type === 2) this.#delimited();
    else if (this.#type === 1) this.#at += 8;
    else if (this.#type === 5) this.#at += 4;
    else throw new MalformedMessageError("A message of etcd has a field of an unknown type.");
    if (this.#at > this.#end) throw new MalformedMessageError("A message of etcd is cut off.");
  }
}

function varintLength(value: number): number {
  let length = 1;
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) length += 1;
  return length;
}
