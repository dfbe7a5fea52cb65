// Goal: the library breaks no invariant on 1,500 simulated days, each the same twice. Method: the swarm on the reference store.
import { smoke } from "./support/sim-smoke.ts";

smoke("memory", 1_500);
