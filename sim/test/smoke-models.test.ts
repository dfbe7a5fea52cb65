// Goal: no store's real code breaks an invariant over the model of its backend. Method: the swarm,
// on every model; of memory's the seeds that sim-smoke-memory.test.ts leaves.
import { MODEL_NAMES } from "../run.ts";
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1_001, to: 1_500 });
for (const store of MODEL_NAMES) if (store !== "memory") smoke(store, { from: 1, to: 50 });
