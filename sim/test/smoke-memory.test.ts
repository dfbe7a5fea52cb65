// Goal: the library breaks no invariant on 1,500 simulated days, each the same twice. Method: the
// swarm on the reference store; the last third of them is in sim-smoke-models.test.ts.
import { smoke } from "./support/smoke.ts";

smoke("memory", { from: 1, to: 1_000 });
