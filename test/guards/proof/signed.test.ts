// Goal: only a text that a trusted key has signed, unchanged and not expired, is accepted. Method:
// real keys; every other text is made from a valid one by one change.

import { generateKeyPairSync, sign } from "node:crypto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { signer, verifier } from "../../../src/guards/proof/signed.ts";
import { connect } from "../../../src/index.ts";

const pair = generateKeyPairSync("ed25519");
const other = generateKeyPairSync("ed25519");
const clock = { at: 1_000_000, wallNow: () => clock.at };
const source = (token: bigint, resource = "settlement") => ({ resource, token });
const make = (keyId = "k1", keys = pair) => signer({ keyId, privateKey: keys.privateKey, clock });
const trusting = (toleranceMs = 0) =>
  verifier({ keys: { k1: pair.publicKey }, toleranceMs, clock });
const untrusted = (reason: string) => expect.objectContaining({ code: "UNTRUSTED_TOKEN", reason });

describe("a signed token", () => {
  test("is verified with its resource, token, key and expiry, also at the limits of their ranges", () => {
    for (const [resource, token] of [
      ["settlement", 4_720n],
      ['账本/ü "x"', 2n ** 127n - 1n],
      ["x".repeat(512), 1n],
    ] as const) {
      const text = make().sign(source(token, resource), { expiresInMs: 60_000 });
      expect(text).toMatch(/^tenure1\.k1\.[\w-]+\.[\w-]{86}$/);
      expect(trusting().verify(text)).toEqual({
        resource,
        token,
        keyId: "k1",
        expiresAt: clock.at + 60_000,
      });
    }
  });

  test("is rejected if any character was changed, even to one that decodes to the same bits", () => {
    const text = make().sign(source(7n), { expiresInMs: 60_000 });
    const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const alike = [...alphabet].map((letter) => text.slice(0, -1) + letter);
    const verified = alike.filter((other) => {
      try {
        return trusting().verify(other).token === 7n;
      } catch (error) {
        expect(error).toEqual(expect.objectContaining({ code: "UNTRUSTED_TOKEN" }));
        return false;
      }
    });
    expect(verified).toEqual([text]);
    const change = fc.tuple(fc.nat(text.length - 1), fc.constantFrom(...alphabet, "."));
    fc.assert(
      fc.property(change, ([index, letter]) => {
        fc.pre(text[index] !== letter);
        const changed = text.slice(0, index) + letter + text.slice(index + 1);
        expect(() => trusting().verify(changed)).toThrow(
          expect.objectContaining({ code: "UNTRUSTED_TOKEN" }),
        );
      }),
      { numRuns: 300 },
    );
  });

  test("of another key with a trusted id is rejected", () => {
    const forged = make("k1", other).sign(source(2n ** 127n - 1n), { expiresInMs: 1_000 });
    expect(() => trusting().verify(forged)).toThrow(untrusted("signature"));
  });

  test("is accepted only by a verifier with the same audience, or if neither side has one", () => {
    const keys = { k1: pair.publicKey };
    const sides = [undefined, "payments", "https://ledger.internal"];
    for (const signedFor of sides) {
      const own = signer({ keyId: "k1", privateKey: pair.privateKey, clock, audience: signedFor });
      const text = own.sign(source(7n), { expiresInMs: 60_000 });
      for (const audience of sides) {
        const { verify } = verifier({ keys, clock, audience });
        if (audience === signedFor) expect(verify(text).token).toBe(7n);
        else expect(() => verify(text)).toThrow(untrusted("audience"));
      }
    }
    for (const audience of ["", "ü", "x".repeat(201), 7, null]) {
      const options = {
        keyId: "k1",
        privateKey: pair.privateKey,
        keys,
        audience: audience as string,
      };
      const bad = expect.objectContaining({ code: "INVALID_ARGUMENT" });
      expect(() => signer(options)).toThrow(bad);
      expect(() => verifier(options)).toThrow(bad);
    }
  });

  test("is valid until its expiry plus the tolerance", () => {
    const text = make().sign(source(7n), { expiresInMs: 100 });
    const verify = trusting(50).verify;
    // Also a text whose signature was verified before.
    expect(verify(text).token).toBe(7n);
    clock.at += 150;
    expect(verify(text).token).toBe(7n);
    clock.at += 1;
    expect(() => verify(text)).toThrow(untrusted("expired"));
  });

  test("is accepted with any of several trusted keys, and rejected with an unknown or revoked one", () => {
    const both = verifier({ keys: { k1: pair.publicKey }, clock });
    const old = make().sign(source(1n), { expiresInMs: 60_000 });
    const fresh = make("k2", other).sign(source(2n), { expiresInMs: 60_000 });
    expect(() => both.verify(fresh)).toThrow(untrusted("unknownKey"));
    both.trust("k2", other.publicKey.export({ type: "spki", format: "pem" }).toString());
    expect(both.verify(fresh).token).toBe(2n);
    expect(both.verify(old).token).toBe(1n);
    // The same id with another key: texts of the first key are rejected.
    const replaced = verifier({ keys: { k1: pair.publicKey }, clock });
    expect(replaced.verify(old).token).toBe(1n);
    replaced.trust("k1", other.publicKey);
    expect(() => replaced.verify(old)).toThrow(untrusted("signature"));
    both.revoke("k1");
    expect(() => both.verify(old)).toThrow(untrusted("revokedKey"));
    both.trust("k1", pair.publicKey);
    expect(() => both.verify(old)).toThrow(untrusted("revokedKey"));
    expect(both.verify(fresh).token).toBe(2n);
  });

  test("is rejected if it is malformed, even if a trusted key has signed it", () => {
    const verify = trusting().verify;
    const payloads = [
      "",
      "[]",
      '["r","7"]',
      '["r","-7",1]',
      '["","7",1]',
      "{}",
      "null",
      '["r",7,"x"]',
    ];
    const signed = payloads.map((payload) => {
      const head = `tenure1.k1.${Buffer.from(payload).toString("base64url")}`;
      return `${head}.${sign(null, Buffer.from(head), pair.privateKey).toString("base64url")}`;
    });
    for (const text of ["", "4720", "tenure1.k1..", "a.b.c.d", "x".repeat(10_000), ...signed]) {
      expect(() => verify(text)).toThrow(untrusted("malformed"));
    }
    for (const text of [undefined, null, 7, {}]) {
      expect(() => verify(text as never)).toThrow(untrusted("malformed"));
    }
  });
});

describe("S8: hostile input", () => {
  const signed = (payload: string): string => {
    const head = `tenure1.k1.${Buffer.from(payload).toString("base64url")}`;
    return `${head}.${sign(null, Buffer.from(head), pair.privateKey).toString("base64url")}`;
  };
  const verifiesOrRejects = (text: string): void => {
    try {
      expect(trusting().verify(text)).toMatchObject({ keyId: "k1" });
    } catch (error) {
      expect(error).toMatchObject({ code: "UNTRUSTED_TOKEN" });
    }
  };

  test("arbitrary text is rejected as untrusted", () => {
    const { verify } = trusting();
    const good = make().sign(source(7n), { expiresInMs: 60_000 });
    const fragments = fc
      .array(
        fc.constantFrom(
          "tenure1.",
          "tenure2.",
          "k1",
          ".",
          "..",
          "-",
          "_",
          "=",
          "\0",
          "\n",
          "\uD800",
          "ü",
          "%",
          "__proto__",
          "a".repeat(64),
          "A".repeat(86),
          "a".repeat(900),
          ...good.split("."),
        ),
        { maxLength: 30 },
      )
      .map((parts) => parts.join(""));
    const changed = fc
      .tuple(fc.nat(good.length), fc.nat(4), fc.string({ unit: "binary", maxLength: 4 }))
      .map(([at, length, other]) => good.slice(0, at) + other + good.slice(at + length));
    const hostile = fc.oneof(
      fc.string({ unit: "binary", maxLength: 1_100 }),
      fragments,
      changed,
      fc.tuple(fragments, fc.nat(1_000)).map(([text, n]) => text.repeat(n).slice(0, 1_000_000)),
    );
    fc.assert(
      fc.property(hostile, (text) => {
        fc.pre(text !== good);
        expect(() => verify(text)).toThrow(expect.objectContaining({ code: "UNTRUSTED_TOKEN" }));
      }),
      { numRuns: 1_000 },
    );
  });

  test("any payload that a trusted key has signed is read as a token or rejected as untrusted", () => {
    const number = fc.oneof(
      fc.integer(),
      fc.double(),
      fc.maxSafeInteger(),
      fc.bigInt().map(Number),
    );
    const value = fc.oneof(fc.jsonValue(), number, fc.string({ unit: "binary" }));
    const alike = fc
      .tuple(fc.oneof(fc.constant("r"), value), fc.oneof(fc.constant("7"), value), value, value)
      .chain((all) => fc.nat(4).map((length) => JSON.stringify(all.slice(0, length))));
    const payload = fc.oneof(fc.string({ unit: "binary", maxLength: 500 }), fc.json(), alike);
    fc.assert(
      fc.property(payload, (text) => verifiesOrRejects(signed(text))),
      {
        numRuns: 1_000,
        examples: [[`["r","7",${Number.MIN_SAFE_INTEGER}]`], ['["r",{"toString":1},1]']],
      },
    );
  });
});

describe("signing", () => {
  test("S6: checks the lease, and finds it in lease.run()", async () => {
    await using tenure = await connect("memory:");
    const lease = await tenure.acquire("settlement");
    const text = await lease.run(() => make().sign({ expiresInMs: 1_000 }));
    expect(trusting().verify(text).token).toBe(lease.token);
    await lease.release();
    expect(() => make().sign(lease, { expiresInMs: 1_000 })).toThrow(
      expect.objectContaining({ code: "LEASE_LOST" }),
    );
    expect(() => make().sign({ expiresInMs: 1_000 })).toThrow("inside lease.run()");
  });

  test("invalid input is rejected, and no key appears in the error", () => {
    const bad = expect.objectContaining({ code: "INVALID_ARGUMENT" });
    const rsa = generateKeyPairSync("rsa", { modulusLength: 1024 });
    const pem = rsa.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    for (const key of [pem, rsa.privateKey, pair.publicKey, "secret text", undefined, {}]) {
      try {
        signer({ keyId: "k", privateKey: key as string });
        expect.unreachable();
      } catch (error) {
        expect(error).toEqual(bad);
        expect(String(error)).not.toContain("secret");
        expect(String(error)).not.toContain("BEGIN");
      }
    }
    expect(() => signer({ keyId: "a.b", privateKey: pair.privateKey })).toThrow(bad);
    expect(() => verifier({ keys: {} })).toThrow(bad);
    expect(() => verifier({ keys: { k: pair.privateKey } })).toThrow(bad);
    expect(() => verifier({ keys: { k: pair.publicKey }, toleranceMs: -1 })).toThrow(bad);
    for (const expiresInMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY, "5"]) {
      expect(() => make().sign(source(1n), { expiresInMs: expiresInMs as number })).toThrow(bad);
    }
    expect(() => make().sign(undefined as never, { expiresInMs: 1 })).toThrow(bad);
    expect(() => make().sign(source(1n, "ü".repeat(256)), { expiresInMs: 1 })).not.toThrow();
  });
});
