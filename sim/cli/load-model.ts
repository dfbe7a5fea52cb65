// The model of a store, before the first seed and before any thread: whoever installed the package has no models of servers
// (docs/adr/021-what-ships.md), and hears of that in a sentence.

import { loadEngine, SHIPPED_MODELS } from "../run.ts";
import { CommandError } from "../../src/cli/command-error.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";

export async function loadModel(store: string): Promise<void> {
  try {
    await loadEngine(store);
  } catch (error) {
    if (!isMissing(error, store)) throw error;
    throw new CommandError(
      `The model of ${store} is not in the npm package, which has those of ${SHIPPED_MODELS.join(" and ")}. Run it from a clone of Tenure's repository: npm run sim -- --store ${store}`,
      EXIT.usage,
      { code: "MODEL_NOT_SHIPPED", store },
    );
  }
}

/** The model itself: when something that it needs is missing, the installation is broken, and the error says what. */
function isMissing(error: unknown, store: string): boolean {
  const { code, url = "" } = error as { readonly code?: string; readonly url?: string };
  return code === "ERR_MODULE_NOT_FOUND" && url.endsWith(`/sim/stores/${store}.js`);
}
