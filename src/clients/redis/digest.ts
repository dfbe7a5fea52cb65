// What Redis calls a script by.

// biome-ignore lint/style/noRestrictedImports: a digest, no chance in it
import { createHash } from "node:crypto";

export function scriptDigest(text: string): string {
  return createHash("sha1").update(text).digest("hex");
}
