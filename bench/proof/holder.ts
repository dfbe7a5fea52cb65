// The process that is stopped or cut off. It takes the lease and writes without a pause, with the bare token and never a
// look at its own clock: the worst former holder there can be. Only the guard at the resource can refuse it.

import { StoreUnavailableError } from "../../src/core/errors.ts";
import { connect } from "../../src/index.ts";
import type { OpenStore, Store } from "../../src/stores/contract.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import type { Order, Setting, Told } from "./messages.ts";
import { RESOURCE, TIMING, WARM } from "./messages.ts";
import { openWriter } from "./writers.ts";

const setting = JSON.parse(process.argv[2] ?? "{}") as Setting;
let isCut = false;
const tenure = await connect(cuttable(sqliteStore({ file: setting.leases })));
const writer = await openWriter[setting.place.resource](setting.place);
const tell = (told: Told): void => void process.send?.(told);

let source = { resource: RESOURCE, token: 0n };
let left = Number.POSITIVE_INFINITY;
let refused = 0;
let accepted = 0;
let failure = "";
let loops: Promise<void>[] = [];

async function loop(paceMs: number): Promise<void> {
  while (left > 0) {
    left -= 1;
    try {
      await writer.write(source);
      accepted += 1;
      if (accepted === WARM) tell({ event: "warm" });
    } catch (error) {
      if ((error as { code?: string }).code === "STALE_TOKEN") refused += 1;
      else {
        // Broken connections and the like: tried and unknown, or not tried; counted by neither side.
        failure = String(error);
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    }
    await new Promise((resolve) =>
      paceMs > 0 ? setTimeout(resolve, paceMs) : setImmediate(resolve),
    );
  }
}

process.on("message", async (order: Order) => {
  switch (order.do) {
    case "begin": {
      isCut = false;
      const lease = await tenure.acquire(RESOURCE, { ...TIMING, waitMs: 60_000 });
      [source, left] = [{ resource: RESOURCE, token: lease.token }, Number.POSITIVE_INFINITY];
      [refused, accepted, failure] = [0, 0, ""];
      loops = Array.from({ length: writer.inFlight }, () => loop(order.paceMs));
      return;
    }
    case "cut":
      isCut = true;
      return;
    case "finish":
      left = order.attempts;
      await Promise.all(loops);
      tell({ event: "finished", refused, accepted, failure });
  }
});
process.on("disconnect", () => process.exit(0));
tell({ event: "ready" });

/** The same store, until its line is cut: then every request is lost. */
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
