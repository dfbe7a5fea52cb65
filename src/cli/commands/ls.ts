// `tenure ls` lists every held lease whose resource begins with a prefix.

import type { LeaseView } from "../../stores/contract.ts";
import { openStore } from "../backends/open-store.ts";
import { EXIT } from "../exit-codes.ts";
import { LEASE_HEAD, leaseObject, leaseRow } from "../output/lease-view.ts";
import { boldTable } from "../output/output.ts";
import type { Command } from "../parsing/arguments.ts";

export const lsCommand: Command = async ({ positionals, options }, output) => {
  const { tenure } = await openStore(options);
  try {
    const leases: LeaseView[] = [];
    for await (const lease of tenure.list(positionals[0] ?? "")) leases.push(lease);
    output.answer(
      () => {
        if (leases.length === 0) return "No leases are held.";
        return boldTable(LEASE_HEAD, leases.map(leaseRow));
      },
      () => leases.map(leaseObject),
    );
    return EXIT.ok;
  } finally {
    await tenure.close();
  }
};
