// Goal: whatever bytes a server sends in place of etcd's answers, the request fails with a
// documented error, and nothing is misread, hangs or costs memory for lengths that are lies (S8).
// Method: random bytes and damaged answers for every decoder; then a real HTTP/2 server that
// answers with them.
import { EventEmitter } from "node:events";
import { type ClientHttp2Stream, createServer, type ServerHttp2Stream } from "node:http2";
import type { AddressInfo } from "node:net";
import fc from "fast-check";
import { describe, expect, onTestFinished, test } from "vitest";
import { hostileBytes } from "../../../test/support/stores/hostile.ts";
import { isTenureError } from "../../core/errors.ts";
import { systemParts } from "../../runtime/system.ts";
import { EtcdClient } from "./client.ts";
import { judge } from "./errors.ts";
import { FrameReader, frame } from "./grpc-frames.ts";
import { endOf, listen } from "./http2-stream.ts";
import { Http2Transport } from "./http2-transport.ts";
import { MalformedMessageError, Reader, Writer } from "./protobuf.ts";
import * as rpcs from "./rpc.ts";
import type { EtcdTransport } from "./transport.ts";

const number = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const bytes = fc.uint8Array({ maxLength: 40 });

function written(write: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  write(writer);
  return writer.finish();
}

function header(writer: Writer, revision: bigint): void {
  writer.message(1, () => {
    writer.int64(3, revision);
    writer.int64(4, 2n);
  });
}

function keyValue(writer: Writer, field: number, [key, revision, value]: Kv): void {
  writer.message(field, () => {
    writer.bytes(1, key);
    writer.int64(2, revision);
    writer.int64(3, revision);
    writer.bytes(5, value);
    writer.int64(6, 7n);
  });
}

type Kv = [Uint8Array, bigint, Uint8Array];
const kvs = fc.array(fc.tuple(bytes, number, bytes), { maxLength: 3 });
const revision = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n });

/** An answer of each kind, as etcd encodes it. */
const answers = {
  range: fc.tuple(revision, kvs).map(([at, found]) =>
    written((writer) => {
      header(writer, at);
      for (const kv of found) keyValue(writer, 2, kv);
      writer.flag(3, true);
    }),
  ),
  txn: fc.tuple(revision, kvs).map(([at, found]) =>
    written((writer) => {
      header(writer, at);
      writer.flag(2, true);
      writer.message(3, () =>
        writer.message(1, () => {
          for (const kv of found) keyValue(writer, 2, kv);
        }),
      );
      writer.message(3, () => writer.message(4, () => writer.flag(2, true)));
    }),
  ),
  lease: fc.tuple(revision, number, number).map(([at, id, ttl]) =>
    written((writer) => {
      header(writer, at);
      writer.int64(2, id);
      writer.int64(3, ttl);
    }),
  ),
  watch: fc.tuple(revision, number, kvs).map(([at, id, found]) =>
    written((writer) => {
      header(writer, at);
      writer.int64(2, id);
      writer.text(6, "reason");
      for (const kv of found) writer.message(11, () => keyValue(writer, 2, kv));
    }),
  ),
  login: fc.string().map((token) => written((writer) => writer.text(2, token))),
};

const decoders: [string, rpcs.Rpc<never, unknown>, fc.Arbitrary<Buffer>][] = [
  ["range", rpcs.range, answers.range],
  ["txn", rpcs.txn, answers.txn],
  ["leaseGrant", rpcs.leaseGrant, answers.lease],
  ["leaseKeepAlive", rpcs.leaseKeepAlive, answers.lease],
  ["leaseTimeToLive", rpcs.leaseTimeToLive, answers.lease],
  ["watch", rpcs.watch, answers.watch],
  ["authenticate", rpcs.authenticate, answers.login],
  ["status", rpcs.status, answers.login],
];

describe("messages", () => {
  test.each(decoders)("S8: any bytes for %s are decoded or malformed", (_, rpc, valid) => {
    fc.assert(
      fc.property(hostileBytes(valid), (message) => {
        try {
          rpc.decode(message);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedMessageError);
        }
      }),
      { numRuns: 1_500 },
    );
  });

  test("a valid answer is decoded to what was written", () => {
    fc.assert(
      fc.property(revision, kvs, (at, found) => {
        const message = written((writer) => {
          header(writer, at);
          for (const kv of found) keyValue(writer, 2, kv);
        });
        const answer = rpcs.range.decode(message);
        expect(answer.header).toEqual({ revision: at, term: 2n });
        expect(
          answer.kvs.map(({ key, createRevision, value }) => [key, createRevision, value]),
        ).toEqual(found.map(([key, made, value]) => [Buffer.from(key), made, Buffer.from(value)]));
      }),
      { numRuns: 300 },
    );
  });

  test("S8: a message that is nested too deeply is malformed, and does not exhaust the stack", () => {
    let message = Buffer.alloc(0);
    for (let depth = 0; depth < 20_000; depth += 1) {
      const [inner, field] = [message, depth % 2 === 0 ? 4 : 3];
      const length: number[] = [];
      for (let rest = inner.length; ; rest >>>= 7) {
        length.push(rest > 0x7f ? (rest & 0x7f) | 0x80 : rest);
        if (rest <= 0x7f) break;
      }
      message = Buffer.concat([Buffer.of((field << 3) | 2, ...length), inner]);
    }
    expect(() => rpcs.txn.decode(message)).toThrow(MalformedMessageError);
  });

  test("S8: a field number beyond 32 bits is not taken for that of another field", () => {
    // (2^32 + 3) << 3, which has the low bits of field 3.
    const message = Buffer.from([0x98, 0x80, 0x80, 0x80, 0x80, 0x01, 1]);
    const reader = new Reader(message);
    expect(() => reader.next()).toThrow(MalformedMessageError);
  });

  test("S7: an empty answer does not mean that nothing was found", () => {
    expect(() => rpcs.range.decode(Buffer.alloc(0))).toThrow(MalformedMessageError);
    expect(() => rpcs.txn.decode(Buffer.alloc(0))).toThrow(MalformedMessageError);
  });
});

describe("frames", () => {
  function read(pieces: readonly Buffer[]): Buffer[] {
    const reader = new FrameReader();
    const messages: Buffer[] = [];
    for (const piece of pieces) reader.take(piece, (message) => messages.push(message));
    return messages;
  }

  test("are the same however the stream is cut into pieces", () => {
    fc.assert(
      fc.property(
        fc.array(bytes, { maxLength: 5 }),
        fc.array(fc.nat(200), { maxLength: 12 }),
        (messages, cuts) => {
          const stream = Buffer.concat(messages.map(frame));
          const ends = [...cuts.filter((cut) => cut < stream.length), stream.length];
          ends.sort((one, other) => one - other);
          const pieces = ends.map((end, index) => stream.subarray(ends[index - 1] ?? 0, end));
          expect(read(pieces)).toEqual(messages.map((message) => Buffer.from(message)));
        },
      ),
      { numRuns: 500 },
    );
  });

  test("S8: any bytes are frames or malformed", () => {
    fc.assert(
      fc.property(fc.array(hostileBytes(bytes.map(frame)), { maxLength: 4 }), (pieces) => {
        try {
          const total = pieces.reduce((sum, piece) => sum + piece.length, 0);
          const found = read(pieces).reduce((sum, message) => sum + message.length, 0);
          expect(found).toBeLessThanOrEqual(total);
        } catch (error) {
          expect(error).toBeInstanceOf(MalformedMessageError);
        }
      }),
      { numRuns: 1_500 },
    );
  });

  test("S8: a large message in many small pieces takes time in proportion to its size", () => {
    const size = 48 << 20;
    const prefix = Buffer.alloc(5);
    prefix.writeUInt32BE(size, 1);
    const piece = Buffer.alloc(8_192);
    const reader = new FrameReader();
    let copied = 0;
    const { concat } = Buffer;
    Buffer.concat = (list, length) => {
      copied += list.reduce((sum, each) => sum + each.length, 0);
      return concat(list, length);
    };
    onTestFinished(() => {
      Buffer.concat = concat;
    });
    let messages = 0;
    reader.take(prefix, () => undefined);
    for (let sent = 0; sent < size; sent += piece.length)
      reader.take(piece, () => {
        messages += 1;
      });
    expect(messages).toBe(1);
    expect(copied).toBeLessThan(2 * size);
  });
});

describe("the status that ends an exchange", () => {
  test.each([
    { status: undefined },
    { status: "" },
    { status: "0, 0" },
    { status: "zero" },
    { status: "-1" },
    { status: "1e3" },
  ])("S7: $status is not an answer: the outcome is unknown", ({ status }) => {
    expect(judge(endOf({ "grpc-status": status }))).toEqual({
      kind: "passing",
      applied: "unknown",
    });
  });

  test("S7: a code that gRPC does not have leaves the outcome unknown", () => {
    expect(judge(endOf({ "grpc-status": "99" }))).toMatchObject({ applied: "unknown" });
  });

  test("S8: any status and any message end the exchange in a known way", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.nat(40).map(String),
      fc.constant("%zz"),
    );
    fc.assert(
      fc.property(text, text, (status, message) => {
        const error = endOf({ "grpc-status": status, "grpc-message": message });
        if (error === undefined) expect(status).toMatch(/^0+$/);
        else expect(["passing", "login", "final"]).toContain(judge(error).kind);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a stream", () => {
  test("S7: nothing is read any more after a malformed message, whatever status follows", () => {
    const emitter = new EventEmitter();
    const stream = Object.assign(emitter, { close: () => undefined, rstCode: 0 });
    const read: string[] = [];
    const ends: unknown[] = [];
    listen(stream as unknown as ClientHttp2Stream, () => true, {
      onMessage: (message) => {
        read.push(message.toString());
        if (read.length === 2) throw new MalformedMessageError("junk");
      },
      onEnd: (error) => ends.push(error),
    });
    const [one, two, three] = ["one", "two", "three"].map((text) => frame(Buffer.from(text)));
    stream.emit("data", Buffer.concat([one as Buffer, two as Buffer]));
    stream.emit("data", three);
    stream.emit("trailers", { "grpc-status": "0" });
    stream.emit("close");
    expect(read).toEqual(["one", "two"]);
    expect(ends).toEqual([expect.objectContaining({ name: "EtcdLinkError", sent: true })]);
  });
});

describe("a request", () => {
  function answering(answer: Uint8Array): EtcdClient {
    const transport: EtcdTransport = {
      place: "nowhere:1",
      call: () => ({ answer: Promise.resolve(answer), cancel: () => undefined }),
      stream: () => {
        throw new Error("not used");
      },
      reset: () => undefined,
      close: () => undefined,
    };
    return new EtcdClient([transport], undefined, systemParts().clock);
  }

  test("S7: a malformed answer to a transaction leaves its outcome unknown", async () => {
    const asking = answering(Buffer.from([0x0b])).call(
      rpcs.txn,
      { when: [], yes: [], no: [] },
      { limitMs: 1_000 },
    );
    await expect(asking).rejects.toMatchObject({ code: "STORE_UNAVAILABLE", applied: "unknown" });
  });

  test("S8: whatever the server sends, it fails with an error of Tenure", async () => {
    const reply: { body: Buffer; status: string } = { body: Buffer.alloc(0), status: "0" };
    const server = createServer();
    server.on("stream", (stream: ServerHttp2Stream) => {
      stream.on("error", () => undefined);
      stream.respond({ ":status": 200 }, { waitForTrailers: true });
      stream.on("wantTrailers", () => stream.sendTrailers({ "grpc-status": reply.status }));
      stream.end(reply.body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const { port } = server.address() as AddressInfo;
    const { clock } = systemParts();
    const target = { host: "127.0.0.1", port, tls: undefined, connectMs: 5_000 };
    const client = new EtcdClient([new Http2Transport(target, clock)], undefined, clock);
    onTestFinished(() => client.close());
    const question = { when: [], yes: [], no: [] };
    await fc.assert(
      fc.asyncProperty(
        hostileBytes(answers.txn.map(frame)),
        fc.constantFrom("0", "0", "0", "", "x"),
        async (body, status) => {
          Object.assign(reply, { body, status });
          const error = await client.call(rpcs.txn, question, { limitMs: 5_000 }).then(
            () => undefined,
            (reason: unknown) => reason,
          );
          expect(error === undefined || isTenureError(error)).toBe(true);
        },
      ),
      { numRuns: 60 },
    );
  });
});
