// `tenure show` prints the holder of one resource, from one linearizable read.

import { systemParts } from "../../runtime/system.ts";
import { openStore } from "../backends/open-store.ts";
import { EXIT } from "../exit-codes.ts";
import { heldSince, leaseObject, secondsLeft } from "../output/lease-view.ts";
import type { Command } from "../parsing/arguments.ts";

export const showCommand: Command = async ({ positionals, options }, output) => {
  const { tenure } = await openStore(options);
  try {
    const { evidence, ...lease } = await tenure.read(positionals[0] ?? "");
    const { resource, holder } = lease;
    const wallMs = systemParts().clock.wallNow();
    output.answer(
      () => {
        if (holder === undefined) return `${resource} is free.`;
        const rows: [string, string][] = [
          ["resource", resource],
          ["holder", holder.holderId],
          ["token", String(holder.token)],
          ["expires in", `${secondsLeft(holder.expiresInMs)} unless renewed`],
          ["session", holder.sessionId],
        ];
        if (holder.heldForMs !== undefined)
          rows.splice(3, 0, ["held since", heldSince(holder.heldForMs, wallMs)]);
        if (holder.value !== undefined) rows.push(["value", JSON.stringify(holder.value)]);
        return rows.map(([name, value]) => `${name.padEnd(12)}${value}`);
      },
      () => ({ ...leaseObject(lease), evidence }),
    );
    return holder === undefined ? EXIT.no : EXIT.ok;
  } finally {
    await tenure.close();
  }
};
