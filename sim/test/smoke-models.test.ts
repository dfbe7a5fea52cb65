// Goal: no store breaks an invariant on the model of its backend. Method: run seeds on every model,
// and the memory seeds that smoke-memory.test.ts leaves out.
import { MODEL_NAMES } from "../run.ts";
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1_001, to: 1_500 });
for (const store of MODEL_NAMES) if (store !== "memory") smoke(store, { from: 1, to: 50 });
