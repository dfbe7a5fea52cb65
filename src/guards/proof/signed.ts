// Signed tokens, for guards that are fed by clients they do not trust: a bare token of 2^127 - 1 would shut out every
// holder for good. Whoever issues tokens signs resource, token and expiry with an Ed25519 key; the guard's side verifies
// offline and refuses the rest. A signature says who issued a token, not that it is the newest: the guard still compares.
//
// The text is `tenure1.<key id>.<payload>.<signature>`; payload (JSON) and signature are base64url. The signature covers
// all that stands before it. The expiry is in wall-clock time, since two hosts share no other clock; it bounds how long a
// stolen token can be shown and nothing else: S2 rests on the comparison alone.

// biome-ignore lint/style/noRestrictedImports: Ed25519 signatures; nothing is drawn here
import { createPrivateKey, createPublicKey, type KeyObject, sign, verify } from "node:crypto";
import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError, UntrustedTokenError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { formatToken, parseToken } from "../../core/token.ts";
// biome-ignore lint/style/noRestrictedImports: made by the user without connect(), which hands out the clock elsewhere
import { systemParts } from "../../runtime/system.ts";
import { resolveSource, type TokenSource } from "../guard.ts";

/** An Ed25519 key: a KeyObject of node:crypto, or its PEM text. */
export type Key = KeyObject | string;

export interface SignerOptions {
  /** Names the key, so that verifiers can hold several: 1 to 64 letters, digits, - and _. */
  readonly keyId: string;
  readonly privateKey: Key;
  /**
   * The service that the texts are for, as 1 to 200 printable ASCII characters, such as its URL. Only a verifier with the
   * same `audience` accepts them; one without `audience` rejects them.
   * @default none: only verifiers without `audience` accept them
   */
  readonly audience?: string | undefined;
  /** For tests. @default the system's */
  readonly clock?: Pick<Clock, "wallNow"> | undefined;
}

export interface SignOptions {
  /**
   * How long the text may be shown. Too small: clocks that disagree, and slow clients, are refused. Too large: a stolen
   * one stays good for longer, though never against a newer token.
   */
  readonly expiresInMs: number;
}

export interface Signer {
  readonly keyId: string;
  /** Asks the lease's check(), then signs. Without a source: the lease of the `lease.run()` around the call. */
  sign(source: TokenSource, options: SignOptions): string;
  sign(options: SignOptions): string;
}

export interface VerifierOptions {
  /** The trusted public keys by their ids. */
  readonly keys: Readonly<Record<string, Key>>;
  /**
   * How far the clocks of signer and verifier may disagree. Too small: fresh tokens are refused. Too large: a stolen one is
   * good for that much longer. @default 5,000
   */
  readonly toleranceMs?: number | undefined;
  /**
   * The name of this service. Texts of signers with another `audience`, or without one, are rejected, so a text that another
   * service has received cannot be used here. @default none: texts with any `audience` are rejected
   */
  readonly audience?: string | undefined;
  /** For tests. @default the system's */
  readonly clock?: Pick<Clock, "wallNow"> | undefined;
}

export interface VerifiedToken extends TokenSource {
  readonly keyId: string;
  /** Milliseconds since 1970 by the signer's wall clock. */
  readonly expiresAt: number;
}

export interface Verifier {
  /** The facts of a text that is to be believed; throws UntrustedTokenError otherwise. */
  verify(text: string): VerifiedToken;
  /** Takes one more key, as the first step of a rotation. An id once revoked stays so. */
  trust(keyId: string, publicKey: Key): void;
  /** From now on nothing signed with this key is believed, whatever its expiry says. */
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
/** Fits a header of 1 kB with some room. */
const TEXT_MAX = 1_000;
/** Texts whose signature was found good are remembered, so many at a time. */
const SEEN_MAX = 1_000;
const TOLERANCE_MAX_MS = 3_600_000;
const EXPIRY_MAX_MS = 366 * 24 * 3_600_000;

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
  // A holder shows the same text many times, and the arithmetic of a signature is what costs. Trust in the key and the
  // expiry are looked at each time.
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
      if (revoked.has(keyId)) {
        throw new UntrustedTokenError(`The key "${keyId}" has been revoked.`, {
          reason: "revokedKey",
        });
      }
      const key = keys.get(keyId);
      if (key === undefined) {
        throw new UntrustedTokenError(`The key "${keyId}" is not trusted here.`, {
          reason: "unknownKey",
        });
      }
      const known = seen.get(text);
      let facts = known?.key === key ? known.facts : undefined;
      if (facts === undefined) {
        if (!isSignature(signed, key, signature)) {
          throw new UntrustedTokenError(`The signature of key "${keyId}" does not fit.`, {
            reason: "signature",
          });
        }
        // Only now is it worth reading: until here anyone may have written it.
        facts = read(payload);
        if (facts.audience !== audience) throw otherAudience(facts.audience, audience);
        if (seen.size >= SEEN_MAX) seen.clear();
        seen.set(text, { key, facts });
      }
      if (clock.wallNow() > facts.expiresAt + toleranceMs) {
        const at = new Date(facts.expiresAt).toISOString();
        throw new UntrustedTokenError(`The signed token expired at ${at}. Sign it again.`, {
          reason: "expired",
        });
      }
      return { resource: facts.resource, token: facts.token, expiresAt: facts.expiresAt, keyId };
    },
  };
}

interface Parts {
  readonly keyId: string;
  readonly payload: string;
  readonly signed: string;
  readonly signature: string;
}

const SHAPE = /^(tenure1\.([\w-]{1,64})\.([\w-]{1,900}))\.([\w-]{86})$/;

function splitText(text: unknown): Parts {
  const shape = typeof text === "string" && text.length <= TEXT_MAX ? SHAPE.exec(text) : null;
  if (shape === null) {
    throw new UntrustedTokenError("Expected a signed token, as made by signer().sign().", {
      reason: "malformed",
    });
  }
  const [, signed = "", keyId = "", payload = "", signature = ""] = shape;
  return { signed, keyId, payload, signature };
}

/**
 * One signature has one text. Base64 leaves four bits of its last letter unused, so 16 letters would decode to the same
 * signature, and a list of used texts would not recognize the other 15.
 */
function isSignature(signed: string, key: KeyObject, text: string): boolean {
  const signature = Buffer.from(text, "base64url");
  if (signature.toString("base64url") !== text) return false;
  return verify(null, Buffer.from(signed), key, signature);
}

interface Facts extends Omit<VerifiedToken, "keyId"> {
  readonly audience: string | undefined;
}

function read(payload: string): Facts {
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
    throw new UntrustedTokenError(
      "It is signed, and is no token: the key is used for other things too.",
      { reason: "malformed", cause },
    );
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
  return new UntrustedTokenError(
    `The token was signed for ${shown(found)}, and this service accepts ${shown(wanted)}. Give signer() and verifier() the same \`audience\`.`,
    { reason: "audience" },
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

/** The message names the kind of key that is missing, and never shows what was given. */
function toKey(key: Key, kind: "private" | "public"): KeyObject {
  let made: KeyObject | undefined;
  try {
    if (typeof key !== "string") made = key;
    else made = kind === "private" ? createPrivateKey(key) : createPublicKey(key);
  } catch {
    made = undefined;
  }
  if (made?.type === kind && made.asymmetricKeyType === "ed25519") return made;
  throw new InvalidArgumentError(
    `Expected an Ed25519 ${kind} key, as a KeyObject or PEM text. Make a pair with generateKeyPairSync("ed25519") of node:crypto.`,
  );
}
