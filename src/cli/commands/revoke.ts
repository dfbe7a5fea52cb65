// `tenure revoke`: shows whose lease it is, asks, and ends exactly that grant.

import { createInterface } from "node:readline";
import type { HolderView } from "../../stores/store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { openStore } from "../open-store.ts";
import { printable } from "../text.ts";
import { UsageError } from "../usage-error.ts";

const LIMIT_MS = 5_000;

export const revokeCommand: Command = async ({ positionals, options }, voice) => {
  const resource = positionals[0] ?? "";
  const asks = process.stdin.isTTY === true && process.stdout.isTTY === true && !voice.json;
  if (!options.has("yes") && !asks) {
    throw new UsageError("There is nobody to ask: give --yes to revoke without a question.");
  }
  const { tenure, store } = await openStore(options);
  try {
    const { holder } = await tenure.read(resource);
    if (holder !== undefined && !options.has("yes") && !(await agrees(resource, holder))) {
      voice.note("nothing was revoked.", {});
      return EXIT.no;
    }
    // By token: a grant that came while the question was open is somebody else's.
    const outcome =
      holder === undefined
        ? undefined
        : await store.revoke({ resource, token: holder.token, limitMs: LIMIT_MS });
    const revoked = outcome?.kind === "revoked";
    voice.answer(
      () =>
        revoked
          ? `Revoked ${printable(resource)}: ${printable(holder?.holderId ?? "")} held it with token ${holder?.token}.`
          : `Nobody holds ${printable(resource)}${holder === undefined ? "" : " as shown any more"}; nothing was revoked.`,
      () => ({ resource, revoked, ...(revoked ? { holder } : {}) }),
    );
    return revoked ? EXIT.ok : EXIT.no;
  } finally {
    await tenure.close();
  }
};

function agrees(resource: string, holder: HolderView): Promise<boolean> {
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  const question = `${printable(holder.holderId)} holds ${printable(resource)} with token ${holder.token}. Revoke it? [y/N] `;
  return new Promise((resolve) => {
    reader.once("close", () => resolve(false));
    reader.question(question, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      reader.close();
    });
  });
}
