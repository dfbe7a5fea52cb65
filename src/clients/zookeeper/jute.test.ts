// Goal: any bytes, in pieces of any size, are decoded correctly or cause a ProtocolError, and a
// false length allocates no memory. Method: properties over random values, cuts and garbage.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { FrameReader, JuteReader, JuteWriter, ProtocolError } from "./jute.ts";

const int = fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 });
const long = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const text = fc.string({ unit: "grapheme", maxLength: 400 });
const bytes = fc.uint8Array({ maxLength: 600 });

function framed(write: (body: JuteWriter) => void): Buffer {
  const body = new JuteWriter(8);
  write(body);
  return body.frame();
}

function framesOf(chunks: readonly Buffer[]): Buffer[] {
  const reader = new FrameReader();
  return chunks.flatMap((chunk) => [...reader.take(chunk)].map((frame) => Buffer.from(frame)));
}

describe("values", () => {
  test("come back as they were written", () => {
    fc.assert(
      fc.property(int, long, fc.boolean(), text, bytes, (a, b, c, d, e) => {
        const frame = framed((body) => body.int(a).long(b).bool(c).text(d).buffer(e));
        expect(frame.readInt32BE(0)).toBe(frame.length - 4);
        const body = new JuteReader(frame.subarray(4));
        expect([body.int(), body.long(), body.bool(), body.text()]).toEqual([a, b, c, d]);
        expect(Buffer.compare(body.buffer(), Buffer.from(e))).toBe(0);
        expect(body.left).toBe(0);
      }),
    );
  });

  test("a list of texts comes back, and one without length (-1) is empty", () => {
    const frame = framed((body) => body.int(2).text("a").text("é").int(-1).int(-1));
    const body = new JuteReader(frame.subarray(4));
    expect(body.texts()).toEqual(["a", "é"]);
    expect(body.texts()).toEqual([]);
    expect(body.text()).toBe("");
  });

  test("a frame that ends too early is an error, wherever it is cut", () => {
    const whole = framed((body) => body.long(7n).text("some text").int(1).text("x")).subarray(4);
    for (let cut = 0; cut < whole.length; cut += 1) {
      const body = new JuteReader(whole.subarray(0, cut));
      const read = (): unknown => [body.long(), body.text(), body.texts()];
      expect(read, `cut at ${cut}`).toThrow(ProtocolError);
    }
  });

  test("lengths and counts that are lies are errors", () => {
    const huge = new JuteReader(framed((body) => body.int(2 ** 31 - 1)).subarray(4));
    expect(() => huge.texts()).toThrow(ProtocolError);
    const long = new JuteReader(framed((body) => body.int(1_000).int(1)).subarray(4));
    expect(() => long.text()).toThrow(ProtocolError);
  });
});

describe("frames", () => {
  test("are the same however the stream is cut into pieces", () => {
    const cuts = fc.array(fc.nat(3_000), { maxLength: 40 });
    fc.assert(
      fc.property(fc.array(bytes, { minLength: 1, maxLength: 6 }), cuts, (bodies, places) => {
        const stream = Buffer.concat(bodies.map((each) => framed((body) => body.buffer(each))));
        const ends = [...places.filter((place) => place < stream.length), stream.length];
        ends.sort((one, other) => one - other);
        const chunks = ends.map((end, index) => stream.subarray(ends[index - 1] ?? 0, end));
        const read = framesOf(chunks).map((frame) => new JuteReader(frame).buffer());
        expect(read.map((each) => each.toString("hex"))).toEqual(
          bodies.map((each) => Buffer.from(each).toString("hex")),
        );
      }),
    );
  });

  test.each([
    ["a web server", "HTTP/1.1 400 Bad Request\r\n"],
    ["Redis", "-ERR unknown command\r\n"],
    ["a negative length", Buffer.from([0xff, 0xff, 0xff, 0xfe, 0])],
  ])("%s is no ZooKeeper", (_, answer) => {
    expect(() => framesOf([Buffer.from(answer)])).toThrow(ProtocolError);
  });

  test("random bytes are frames or a ProtocolError, nothing else", () => {
    fc.assert(
      fc.property(fc.array(bytes, { maxLength: 5 }), (chunks) => {
        try {
          framesOf(chunks.map((chunk) => Buffer.from(chunk)));
        } catch (error) {
          expect(error).toBeInstanceOf(ProtocolError);
        }
      }),
    );
  });
});
