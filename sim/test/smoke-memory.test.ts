// Goal: the library breaks no invariant in 1,500 runs on the memory store, each repeatable. Method:
// run the seeds; the last third is in smoke-models.test.ts.
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1, to: 1_000 });
