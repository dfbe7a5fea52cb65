// The name by which Redis runs a script that it has: the SHA-1 of its text.

// biome-ignore lint/style/noRestrictedImports: a digest; not random
import { createHash } from "node:crypto";

export function scriptDigest(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
