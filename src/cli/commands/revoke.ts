// `tenure revoke` shows the holder, asks for confirmation, and revokes exactly the grant it showed.

import { openStore } from "../backends/open-store.ts";
import { EXIT } from "../exit-codes.ts";
import { checkCanConfirm, confirm } from "../output/confirm.ts";
import type { Command } from "../parsing/arguments.ts";

const LIMIT_MS = 5_000;

export const revokeCommand: Command = async ({ positionals, options }, output) => {
  const resource = positionals[0] ?? "";
  checkCanConfirm(options, output, "revoke");
  const { tenure, store } = await openStore(options);
  try {
    const { holder } = await tenure.read(resource);
    const question = `${holder?.holderId} holds ${resource} with token ${holder?.token}. Revoke it?`;
    const isConfirmed = holder === undefined || options.has("yes");
    if (!isConfirmed && !(await confirm(question))) {
      output.note("nothing was revoked.", {});
      return EXIT.no;
    }
    // Conditional on the token: a newer grant, made while we asked, must stay.
    const outcome =
      holder === undefined
        ? undefined
        : await store.revoke({ resource, token: holder.token, limitMs: LIMIT_MS });
    const revoked = outcome?.kind === "revoked";
    output.answer(
      () =>
        revoked
          ? `Revoked ${resource}: ${holder?.holderId ?? ""} held it with token ${holder?.token}.`
          : holder === undefined
            ? `${resource} is free; nothing was revoked.`
            : `${resource} is no longer held with token ${holder.token}; nothing was revoked.`,
      () => ({ resource, revoked, ...(revoked ? { holder } : {}) }),
    );
    return revoked ? EXIT.ok : EXIT.no;
  } finally {
    await tenure.close();
  }
};
