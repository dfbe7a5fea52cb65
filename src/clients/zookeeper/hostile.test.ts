// Goal: any bytes from a server, and any data that another program writes to a node, at worst end a
// connection or are reported as malformed (S8). Method: random bytes and damaged frames for every
// parser, and for a connection over a stream in memory.
import { once } from "node:events";
import { Duplex } from "node:stream";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileBytes, hostileText } from "../../../test/support/stores/hostile.ts";
import { StoreUnusableError } from "../../core/errors.ts";
import { encodeRecord, UNREADABLE_HOLDER } from "../../core/record.ts";
import { isToken } from "../../core/token.ts";
import {
  decodeNode,
  decodeNotices,
  encodeNode,
  encodeNotices,
  shownNode,
} from "../../stores/zookeeper/record.ts";
import { JuteReader, JuteWriter, ProtocolError } from "./jute.ts";
import {
  exists,
  getData,
  readConnectResponse,
  readDataAndStat,
  readEvent,
  readMulti,
  readStat,
} from "./messages.ts";
import { decodeName, queueNodesOf } from "./names.ts";
import { ConnectionLostError, Wire } from "./wire.ts";

const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const int = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const text = fc.string({ unit: "grapheme", maxLength: 30 });

function body(write: (writer: JuteWriter) => void): Buffer {
  const writer = new JuteWriter(8);
  write(writer);
  return writer.frame().subarray(4);
}

function stat(writer: JuteWriter, czxid: bigint): JuteWriter {
  writer.long(czxid).long(czxid).long(0n).long(0n).int(1).int(0).int(0);
  return writer.long(0n).int(3).int(2).long(czxid);
}

/** A valid body for each parser. */
const bodies: [string, (body: JuteReader) => unknown, fc.Arbitrary<Buffer>][] = [
  [
    "readConnectResponse",
    readConnectResponse,
    fc
      .tuple(int, long)
      .map(([timeout, id]) =>
        body((writer) => writer.int(0).int(timeout).long(id).buffer(Buffer.alloc(16)).bool(false)),
      ),
  ],
  ["readStat", readStat, long.map((czxid) => body((writer) => stat(writer, czxid)))],
  [
    "readDataAndStat",
    readDataAndStat,
    fc.tuple(text, long).map(([data, czxid]) => body((writer) => stat(writer.text(data), czxid))),
  ],
  [
    "readMulti",
    readMulti,
    fc.tuple(text, long, int).map(([path, czxid, error]) =>
      body((writer) => {
        writer.int(1).bool(false).int(0).text(path);
        stat(writer.int(5).bool(false).int(0), czxid);
        writer.int(-1).bool(false).int(error).int(error);
        writer.int(-1).bool(true).int(-1);
      }),
    ),
  ],
  ["readEvent", readEvent, text.map((path) => body((writer) => writer.int(1).int(3).text(path)))],
  [
    "texts",
    (reader) => reader.texts(),
    fc.array(text, { maxLength: 5 }).map((list) =>
      body((writer) => {
        writer.int(list.length);
        for (const each of list) writer.text(each);
      }),
    ),
  ],
];

describe("bodies", () => {
  test.each(bodies)("S8: any bytes for %s are read, or are a ProtocolError", (_, read, valid) => {
    fc.assert(
      fc.property(hostileBytes(valid), (bytes) => {
        try {
          read(new JuteReader(bytes));
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
      { numRuns: 1_500 },
    );
  });

  test("S8: any name of a node is that of a queue node, that of a resource, or ignored", () => {
    const valid = fc.constantFrom(
      "00000000000000ab-.1_0000000007",
      "00000000000000ab-%21x_-000000012",
      "00000000000000ab-.1@2.0badcafe.7_0000000012",
    );
    fc.assert(
      fc.property(fc.array(hostileText(valid), { maxLength: 6 }), (names) => {
        for (const { rank, arrival } of queueNodesOf(names))
          expect([rank, arrival].every(Number.isSafeInteger)).toBe(true);
        for (const name of names) {
          const resource = decodeName(name);
          if (resource !== undefined) expect(typeof resource).toBe("string");
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("records", () => {
  const who = { holderId: "host/1", sessionId: "s", attempt: "s.1" };

  test("a queue node is decoded as it was encoded", () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 2 ** 31 - 1 }), fc.jsonValue(), (timeoutMs, value) => {
        const place = decodeNode(encodeNode(timeoutMs, encodeRecord({ ...who, value })));
        expect(place).toMatchObject({ timeoutMs, record: who });
      }),
      { numRuns: 300 },
    );
  });

  test("S8: any data of a node is a record or unusable, and its time is a number of milliseconds", () => {
    const valid = fc
      .jsonValue({ maxDepth: 2 })
      .map((value) => encodeNode(9_000, encodeRecord({ ...who, value })));
    fc.assert(
      fc.property(hostileText(valid), (data) => {
        try {
          const { timeoutMs } = decodeNode(data);
          expect(Number.isSafeInteger(timeoutMs) && timeoutMs > 0).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(StoreUnusableError);
        }
        expect(typeof shownNode(data).record.holderId).toBe("string");
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(["Infinity", "1e308", "0x10", "-1", "0", "NaN", ""])("S8: %j is not a time", (time) => {
    const data = `${time} ${encodeRecord(who)}`;
    expect(() => decodeNode(data)).toThrow(StoreUnusableError);
    expect(shownNode(data).record.holderId).toBe(UNREADABLE_HOLDER);
  });

  test("S8: any data of the notices node are notices or ignored", () => {
    const valid = fc
      .array(fc.tuple(text, fc.bigInt({ min: 1n, max: 2n ** 127n - 1n })), { maxLength: 4 })
      .map((list) =>
        encodeNotices(
          list.map(([resource, token]) => ({
            kind: "wanted",
            session: "s",
            ref: { resource, token },
          })),
        ),
      );
    fc.assert(
      fc.property(hostileText(valid), (data) => {
        for (const { kind, ref } of decodeNotices(data)) {
          expect(["lost", "wanted"]).toContain(kind);
          expect([typeof ref.resource, isToken(ref.token)]).toEqual(["string", true]);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe("a connection", () => {
  /** Receives what is pushed, and ignores what is written. */
  function connection(): { readonly wire: Wire; readonly stream: Duplex } {
    const stream = new Duplex({
      read: () => undefined,
      write: (_chunk, _encoding, done) => done(),
    });
    return { wire: new Wire(stream), stream };
  }

  const hello = { lastZxid: 0n, timeoutMs: 1_000, sessionId: 0n, password: Buffer.alloc(16) };
  const helloAnswer = body((writer) =>
    writer.int(0).int(4_000).long(7n).buffer(Buffer.alloc(16)).bool(false),
  );

  function framed(bytes: Buffer): Buffer {
    const length = Buffer.alloc(4);
    length.writeInt32BE(bytes.length);
    return Buffer.concat([length, bytes]);
  }

  test("S8: a malformed answer to the handshake ends it at once", async () => {
    const { wire, stream } = connection();
    const shaken = wire.shakeHands(hello);
    stream.push(framed(Buffer.from([0, 0])));
    await expect(shaken).rejects.toThrow(ConnectionLostError);
  });

  test("S8: after any bytes, every request is answered or lost, and nothing is thrown", async () => {
    const replies = fc
      .tuple(fc.integer({ min: -4, max: 4 }), long, text)
      .map(([xid, zxid, data]) => {
        const reply = body((writer) => stat(writer.int(xid).long(zxid).int(0).text(data), zxid));
        return framed(reply);
      });
    await fc.assert(
      fc.asyncProperty(fc.array(hostileBytes(replies), { maxLength: 5 }), async (chunks) => {
        const { wire, stream } = connection();
        const shaken = wire.shakeHands(hello);
        stream.push(framed(helloAnswer));
        await shaken;
        const asked = [wire.send(exists("/a")), wire.send(getData("/b"))];
        for (const chunk of chunks) if (!stream.destroyed) stream.push(chunk);
        if (!stream.destroyed) stream.push(null);
        for (const result of await Promise.allSettled(asked)) {
          if (result.status === "rejected")
            expect(result.reason).toBeInstanceOf(ConnectionLostError);
        }
        // If both requests were answered, the end of the stream may not have been read yet.
        if (!stream.closed) await once(stream, "close");
        expect(wire.hasEnded).toBe(true);
      }),
      { numRuns: 400 },
    );
  });

  test("S8: a frame of an absurd length is rejected when its first bytes arrive", async () => {
    const { wire, stream } = connection();
    const shaken = wire.shakeHands(hello);
    stream.push(Buffer.from([0x7f, 0xff, 0xff, 0xff]));
    await expect(shaken).rejects.toThrow(/a frame of 2147483647 bytes/);
  });
});
