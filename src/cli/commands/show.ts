// `tenure show`: who holds one resource, by one linearizable read.

import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { leaseObject, secondsLeft } from "../lease-view.ts";
import { openStore } from "../open-store.ts";

export const showCommand: Command = async ({ positionals, options }, voice) => {
  const { tenure } = await openStore(options);
  try {
    const { evidence, ...lease } = await tenure.read(positionals[0] ?? "");
    const { resource, holder } = lease;
    voice.answer(
      () => {
        if (holder === undefined) return `${resource} is free.`;
        const rows: [string, string][] = [
          ["resource", resource],
          ["holder", holder.holderId],
          ["token", String(holder.token)],
          ["expires in", `${secondsLeft(holder.expiresInMs)} unless renewed`],
          ["session", holder.sessionId],
        ];
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
