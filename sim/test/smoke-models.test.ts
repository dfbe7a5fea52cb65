// Goal: no store breaks an invariant on the model of its backend. Method: run seeds on every model.
import { MODEL_NAMES } from "../run.ts";
import { smoke } from "./support/smoke.ts";

for (const store of MODEL_NAMES) if (store !== "memory") smoke(store, { from: 1, to: 25 });
