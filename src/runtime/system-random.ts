// Randomness. `next` spreads the delays of retries, for which Math.random() is sufficient. Ids come
// from the operating system, because they must differ between processes that start at the same
// instant.

import { randomBytes } from "node:crypto";
import type { Random } from "../async/clock.ts";

export const systemRandom: Random = {
  next: () => Math.random(),
  id: () => randomBytes(16).toString("hex"),
};
