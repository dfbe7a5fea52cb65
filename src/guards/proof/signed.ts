// Signed tokens, for guards with untrusted clients. An untrusted client could present a bare token
// of 2^127 - 1 and lock out every holder for good. The issuer signs resource, token and expiry with
// an Ed25519 key, and the guard verifies the signature offline. A signature proves who issued a
// token, not that it is the newest, so the guard still compares.
//
// The format is `tenure1.<key id>.<payload>.<signature>`. Payload (JSON) and signature are
// base64url, and the signature covers everything before it. The expiry is a wall-clock time,
// because two hosts share no other clock. It only limits how long a stolen token can be used; S2
// relies on the comparison alone.

// biome-ignore lint/style/noRestrictedImports: Ed25519 signatures; not random
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { formatToken, parseToken } from "../../core/token.ts";
import { type UntrustedReason, UntrustedTokenError } from "../../core/untrusted-token.ts";
// biome-ignore lint/style/noRestrictedImports: guards are created without connect()
import { systemParts } from "../../runtime/system.ts";
import { resolveSource, type TokenSource } from "../guard.ts";

/** An Ed25519 key: a KeyObject of node:crypto, or its PEM text. */
export type Key = KeyObject | string;

/** Options of signer(). */
export interface SignerOptions {
  /** Identifies the key, so that a verifier can trust several: 1 to 64 letters, digits, - and _. */
  readonly keyId: string;
  /** The private key. Keep it where only the holders of leases can read it. */
  readonly privateKey: Key;
  /**
   * The service that the tokens are for, such as its URL: 1 to 200 printable ASCII characters. Only
   * a verifier with the same `audience` accepts them.
   * @default none: only verifiers without `audience` accept them
   */
  readonly audience?: string | undefined;
  /** For tests. @default the system's */
  readonly clock?: Pick<Clock, "wallNow"> | undefined;
}

/** Options of sign(). */
export interface SignOptions {
  /**
   * How long the signed token is valid. Too small: slow clients, and clients whose clock differs,
   * are rejected. Too large: a stolen token is valid for longer, though never after a newer token
   * was seen.
   */
  readonly expiresInMs: number;
}

/** Signs tokens with one private key. */
export interface Signer {
  /** The id of the key, as in SignerOptions. */
  readonly keyId: string;
  /**
   * Calls the lease's check(), then signs. Without a source, it uses the lease of the `lease.run()`
   * around the call.
   */
  sign(source: TokenSource, options: SignOptions): string;
  /** The same, with the lease of the `lease.run()` around the call. */
  sign(options: SignOptions): string;
}

/** Options of verifier(). */
export interface VerifierOptions {
  /** The trusted public keys by their ids. */
  readonly keys: Readonly<Record<string, Key>>;
  /**
   * How far the clocks of signer and verifier may differ, in milliseconds. Too small: valid tokens
   * are rejected. Too large: a stolen token is valid for that much longer. @default 5000
   */
  readonly toleranceMs?: number | undefined;
  /**
   * The name of this service. Tokens with another `audience`, or without one, are rejected, so a
   * token that another service has received cannot be used here. @default none: tokens with an
   * `audience` are rejected
   */
  readonly audience?: string | undefined;
  /** For tests. @default the system's */
  readonly clock?: Pick<Clock, "wallNow"> | undefined;
}

/** The content of a token whose signature is trusted. Guards accept it as a TokenSource. */
export interface VerifiedToken extends TokenSource {
  /** The id of the key that signed it. */
  readonly keyId: string;
  /** Milliseconds since 1970 by the signer's wall clock. */
  readonly expiresAt: number;
}

/** Verifies signed tokens offline. */
export interface Verifier {
  /** Returns the content of a trusted token, or throws UntrustedTokenError. */
  verify(text: string): VerifiedToken;
  /** Adds a key, as the first step of a rotation. A revoked id cannot be added again. */
  trust(keyId: string, publicKey: Key): void;
  /** Rejects all tokens signed with this key from now on, whatever their expiry. */
  revoke(keyId: string): void;
}

const SIGNER_OPTIONS: OptionNames<SignerOptions> = {
  keyId: true,
  privateKey: true,
  audience: true,
  clock: true,
};
const SIGN_OPTIONS: OptionNames<SignOptions> = { expiresInMs: true };
const VERIFIER_OPTIONS: OptionNames<VerifierOptions> = {
  keys: true,
  audience: true,
  toleranceMs: true,
  clock: true,
};

const VERSION = "tenure1";
/** Fits into a header of 1 kB. */
const TEXT_MAX = 1_000;
/** The size of the cache of verified texts. */
const SEEN_MAX = 1_000;
const TOLERANCE_MAX_MS = 3_600_000;
const EXPIRY_MAX_MS = 366 * 24 * 3_600_000;

/**
 * Creates a signer for the process that holds the leases. Throws InvalidArgumentError for a key
 * that is not an Ed25519 private key.
 */
export function signer(options: SignerOptions): Signer {
  checkOptionNames("signer()", options, SIGNER_OPTIONS);
  const keyId = checkKeyId(options.keyId);
  const key = toKey(options.privateKey, "private");
  const audience = checkAudience(options.audience);
  const clock = options.clock ?? systemParts().clock;
  return {
    keyId,
    sign(...args: [TokenSource, SignOptions] | [SignOptions]): string {
      const [given, signOptions] = args.length === 1 ? [undefined, args[0]] : args;
      if (args.length === 2 && given === undefined) {
        throw new InvalidArgumentError("sign() was given undefined as the lease.");
      }
      checkOptionNames("sign()", signOptions, SIGN_OPTIONS);
      const expiresInMs = checkExpiry(signOptions?.expiresInMs);
      const { resource, token } = resolveSource(given);
      const expiresAt = Math.ceil(clock.wallNow() + expiresInMs);
      const facts = [resource, formatToken(token), expiresAt];
      const payload = JSON.stringify(audience === undefined ? facts : [...facts, audience]);
      const signed = `${VERSION}.${keyId}.${Buffer.from(payload).toString("base64url")}`;
      const text = `${signed}.${sign(null, Buffer.from(signed), key).toString("base64url")}`;
      if (text.length <= TEXT_MAX) return text;
      throw new InvalidArgumentError(
        `The signed token has ${text.length} characters, and ${TEXT_MAX} are allowed. Use a shorter resource name.`,
      );
    },
  };
}

/**
 * Creates a verifier for the service that the clients write to. Pass it to httpGuard() as
 * `signedBy`.
 */
export function verifier(options: VerifierOptions): Verifier {
  checkOptionNames("verifier()", options, VERIFIER_OPTIONS);
  const { toleranceMs = 5_000 } = options;
  const audience = checkAudience(options.audience);
  if (!(toleranceMs >= 0 && toleranceMs <= TOLERANCE_MAX_MS)) {
    throw new InvalidArgumentError(
      `\`toleranceMs\` must be from 0 to ${TOLERANCE_MAX_MS}, got ${toleranceMs}.`,
    );
  }
  const clock = options.clock ?? systemParts().clock;
  const keys = new Map<string, KeyObject>();
  const revoked = new Set<string>();
  // Caches verified texts, because a holder presents the same one many times and verification is
  // expensive. The key and the expiry are checked each time.
  const seen = new Map<string, { key: KeyObject; facts: Facts }>();
  const trust = (keyId: string, key: Key): void => {
    if (!revoked.has(checkKeyId(keyId))) keys.set(keyId, toKey(key, "public"));
  };
  for (const [keyId, key] of Object.entries(options.keys ?? {})) trust(keyId, key);
  if (keys.size === 0) {
    throw new InvalidArgumentError(
      "verifier() needs at least one key: { keys: { [keyId]: publicKey } }.",
    );
  }
  return {
    trust,
    revoke: (keyId) => {
      revoked.add(checkKeyId(keyId));
      keys.delete(keyId);
    },
    verify: (text) => {
      const { keyId, payload, signed, signature } = splitText(text);
      if (revoked.has(keyId)) throw untrusted("revokedKey", `The key "${keyId}" has been revoked.`);
      const key = keys.get(keyId);
      if (key === undefined)
        throw untrusted("unknownKey", `The key "${keyId}" is not trusted here.`);
      const known = seen.get(text);
      let facts = known?.key === key ? known.facts : undefined;
      if (facts === undefined) {
        if (!isSignature(signed, key, signature))
          throw untrusted("signature", `The signature of key "${keyId}" does not fit.`);
        // The payload is parsed only after its signature was verified.
        facts = readPayload(payload);
        if (facts.audience !== audience) throw otherAudience(facts.audience, audience);
        if (seen.size >= SEEN_MAX) seen.clear();
        seen.set(text, { key, facts });
      }
      if (clock.wallNow() > facts.expiresAt + toleranceMs) {
        const at = new Date(facts.expiresAt).toISOString();
        throw untrusted("expired", `The signed token expired at ${at}. Sign it again.`);
      }
      return { resource: facts.resource, token: facts.token, expiresAt: facts.expiresAt, keyId };
    },
  };
}

const SHAPE = /^(tenure1\.([\w-]{1,64})\.([\w-]{1,900}))\.([\w-]{86})$/;

function splitText(text: unknown): Record<"keyId" | "payload" | "signed" | "signature", string> {
  const shape = typeof text === "string" && text.length <= TEXT_MAX ? SHAPE.exec(text) : null;
  if (shape === null)
    throw untrusted("malformed", "Expected a signed token, as made by signer().sign().");
  const [, signed = "", keyId = "", payload = "", signature = ""] = shape;
  return { signed, keyId, payload, signature };
}

function untrusted(reason: UntrustedReason, message: string, cause?: unknown): UntrustedTokenError {
  return new UntrustedTokenError(message, { reason, cause });
}

/**
 * Accepts only one text per signature. Base64 leaves four bits of the last letter unused, so 16
 * letters decode to the same signature, and a list of used texts would not recognise the other 15.
 */
function isSignature(signed: string, key: KeyObject, text: string): boolean {
  const signature = Buffer.from(text, "base64url");
  if (signature.toString("base64url") !== text) return false;
  return verify(null, Buffer.from(signed), key, signature);
}

interface Facts extends Omit<VerifiedToken, "keyId"> {
  readonly audience: string | undefined;
}

function readPayload(payload: string): Facts {
  try {
    const facts: unknown = JSON.parse(Buffer.from(payload, "base64url").toString());
    const [resource, token, expiresAt, audience] = facts as unknown[];
    if (!(Number.isSafeInteger(expiresAt) && Number(expiresAt) >= 0)) throw new Error("no expiry");
    return {
      resource: checkResource(resource),
      token: parseToken(String(token)),
      expiresAt: Number(expiresAt),
      audience: checkAudience(audience),
    };
  } catch (cause) {
    const message = "The signed text is not a token: its key is also used for other purposes.";
    throw untrusted("malformed", message, cause);
  }
}

function checkKeyId(keyId: unknown): string {
  if (typeof keyId === "string" && /^[\w-]{1,64}$/.test(keyId)) return keyId;
  throw new InvalidArgumentError("`keyId` must be 1 to 64 letters, digits, - and _.");
}

function checkAudience(audience: unknown): string | undefined {
  if (audience === undefined) return undefined;
  if (typeof audience === "string" && /^[ -~]{1,200}$/.test(audience)) return audience;
  throw new InvalidArgumentError("`audience` must be 1 to 200 printable ASCII characters.");
}

function otherAudience(found: string | undefined, wanted: string | undefined): UntrustedTokenError {
  const shown = (audience: string | undefined): string =>
    audience === undefined ? "no audience" : `the audience "${audience}"`;
  return untrusted(
    "audience",
    `The token was signed for ${shown(found)}, and this service accepts ${shown(wanted)}. Give signer() and verifier() the same \`audience\`.`,
  );
}

function checkExpiry(expiresInMs: unknown): number {
  if (typeof expiresInMs === "number" && expiresInMs > 0 && expiresInMs <= EXPIRY_MAX_MS) {
    return expiresInMs;
  }
  throw new InvalidArgumentError(
    `\`expiresInMs\` must be a number of milliseconds above 0 and at most a year, got ${String(expiresInMs)}.`,
  );
}

/** The error names the expected kind of key and never contains the given value. */
function toKey(key: Key, kind: "private" | "public"): KeyObject {
  const parse = kind === "private" ? createPrivateKey : createPublicKey;
  let made: KeyObject | undefined;
  try {
    made = typeof key === "string" ? parse(key) : key;
  } catch {
    // Not a key. The error below says what is.
  }
  if (made?.type === kind && made.asymmetricKeyType === "ed25519") return made;
  throw new InvalidArgumentError(
    `Expected an Ed25519 ${kind} key, as a KeyObject or PEM text. Make a pair with generateKeyPairSync("ed25519") of node:crypto.`,
  );
}
