// Goal: no store's real code breaks an invariant over the model of its backend. Method: the swarm, on every model but memory's,
// which has a file of its own.
import { MODEL_NAMES } from "../src/sim/run.ts";
import { smoke } from "./support/sim-smoke.ts";

for (const store of MODEL_NAMES) if (store !== "memory") smoke(store, 50);
