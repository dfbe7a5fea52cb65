// The process that is stopped or cut off. It takes the lease and writes without a pause, with the
// bare token and without checking its own deadline, so that only the guard at the resource can
// refuse it.

import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { StoreUnavailableError } from "../../src/core/errors.ts";
import { connect } from "../../src/index.ts";
import type { OpenStore, Store } from "../../src/stores/contract.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import type { HolderSettings, Order, Report } from "./messages.ts";
import { RESOURCE, TIMING, WARM_WRITES } from "./messages.ts";
import { openWriter } from "./writers.ts";

const settings = JSON.parse(process.argv[2] ?? "{}") as HolderSettings;
let isCut = false;
const tenure = await connect(cuttable(sqliteStore({ file: settings.leases })));
const writer = await openWriter[settings.writer.resource](settings.writer);
const report = (message: Report): void => void process.send?.(message);

let source = { resource: RESOURCE, token: 0n };
let left = Number.POSITIVE_INFINITY;
let refused = 0;
let accepted = 0;
let failure = "";
let loops: Promise<void>[] = [];

async function writeInLoop(paceMs: number): Promise<void> {
  while (left > 0) {
    left -= 1;
    try {
      await writer.write(source);
      accepted += 1;
      if (accepted === WARM_WRITES) report({ event: "warm" });
    } catch (error) {
      if ((error as { code?: string }).code === "STALE_TOKEN") refused += 1;
      else {
        // A broken connection, for example. The write may have arrived, so neither side counts it.
        failure = String(error);
        await sleep(10);
      }
    }
    await (paceMs > 0 ? sleep(paceMs) : nextTurn());
  }
}

process.on("message", async (order: Order) => {
  switch (order.do) {
    case "begin": {
      isCut = false;
      const lease = await tenure.acquire(RESOURCE, { ...TIMING, waitMs: 60_000 });
      [source, left] = [{ resource: RESOURCE, token: lease.token }, Number.POSITIVE_INFINITY];
      [refused, accepted, failure] = [0, 0, ""];
      loops = Array.from({ length: writer.inFlight }, () => writeInLoop(order.paceMs));
      return;
    }
    case "cut":
      isCut = true;
      return;
    case "finish":
      left = order.attempts;
      await Promise.all(loops);
      report({ event: "finished", refused, accepted, failure });
  }
});
process.on("disconnect", () => process.exit(0));
report({ event: "ready" });

/** The same store; after the cut, every request fails. */
function cuttable(open: OpenStore): OpenStore {
  return async (parts) =>
    new Proxy(await open(parts), {
      get: (store: Store, name: keyof Store) => {
        const value = store[name] as unknown;
        if (typeof value !== "function") return value;
        return (...args: unknown[]) => {
          if (!isCut || name === "close") return value.apply(store, args);
          return Promise.reject(new StoreUnavailableError("cut off", { applied: "unknown" }));
        };
      },
    });
}
