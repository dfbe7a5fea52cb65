// Goal: the library breaks no invariant in 500 runs on the memory store.
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1, to: 500 });
