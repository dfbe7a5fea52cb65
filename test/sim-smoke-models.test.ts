// Goal: no store's real code breaks an invariant over the model of its backend. Method: the swarm, on every model but memory's,
// which has a file of its own.
import { ENGINES } from "../src/sim/run.ts";
import { smoke } from "./support/sim-smoke.ts";

for (const store of Object.keys(ENGINES)) if (store !== "memory") smoke(store, 50);
