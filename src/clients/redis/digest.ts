// SHA-1 digests as Redis computes them: the name by which it runs a script that it has, and the
// signature of a message.

// biome-ignore lint/style/noRestrictedImports: a digest; not random
import { createHash } from "node:crypto";

/** The same as `redis.sha1hex` in a script. */
export function sha1Hex(text: string | Uint8Array): string {
  return createHash("sha1").update(text).digest("hex");
}

/** The signature of a message. Only a process that knows the secret can write it. */
export function sign(secret: string, message: string): string {
  return sha1Hex(secret + sha1Hex(secret + message));
}
