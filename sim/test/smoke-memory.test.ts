// Goal: the library breaks no invariant in 300 runs on the memory store, each repeatable.
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1, to: 300 });
