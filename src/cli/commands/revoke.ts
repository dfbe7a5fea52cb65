// `tenure revoke`: shows whose lease it is, asks, and ends exactly that grant.

import type { HolderView } from "../../stores/contract.ts";
import { openStore } from "../backends/open-store.ts";
import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { checkCanConfirm, confirm } from "../output/confirm.ts";

const LIMIT_MS = 5_000;

export const revokeCommand: Command = async ({ positionals, options }, output) => {
  const resource = positionals[0] ?? "";
  checkCanConfirm(options, output, "revoke");
  const { tenure, store } = await openStore(options);
  try {
    const { holder } = await tenure.read(resource);
    const isSure = holder === undefined || options.has("yes");
    if (!isSure && !(await confirm(questionOf(resource, holder)))) {
      output.note("nothing was revoked.", {});
      return EXIT.no;
    }
    // By token: a grant that came while the question was open is somebody else's.
    const outcome =
      holder === undefined
        ? undefined
        : await store.revoke({ resource, token: holder.token, limitMs: LIMIT_MS });
    const revoked = outcome?.kind === "revoked";
    output.answer(
      () =>
        revoked
          ? `Revoked ${resource}: ${holder?.holderId ?? ""} held it with token ${holder?.token}.`
          : `Nobody holds ${resource}${holder === undefined ? "" : " as shown any more"}; nothing was revoked.`,
      () => ({ resource, revoked, ...(revoked ? { holder } : {}) }),
    );
    return revoked ? EXIT.ok : EXIT.no;
  } finally {
    await tenure.close();
  }
};

function questionOf(resource: string, holder: HolderView): string {
  return `${holder.holderId} holds ${resource} with token ${holder.token}. Revoke it?`;
}
