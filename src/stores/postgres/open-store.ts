// From a link to an open store: the server is looked at, the schema made where it is missing. Whoever has a link of another
// kind (the simulator's model of a server) begins here.

import type { PgLink } from "../../clients/postgres/link.ts";
import { Requests } from "../../clients/postgres/requests.ts";
import type { Store, StoreParts } from "../contract.ts";
import { setUp } from "./setup.ts";
import { closeInTime, PostgresStore } from "./store.ts";

export interface OpenSettings {
  readonly schema: string;
  readonly createSchema: boolean;
  readonly listens: boolean;
  /** When opening has failed, by the store's clock. */
  readonly giveUpAt: number;
}

/** The link is closed with the store, also when that does not open. */
export async function openOnLink(
  link: PgLink,
  { schema, createSchema, listens, giveUpAt }: OpenSettings,
  parts: StoreParts,
): Promise<Store> {
  const { clock, random } = parts;
  const requests = new Requests({ link, clock, random, schema });
  try {
    const { address } = link;
    const leftMs = (): number => Math.max(1, giveUpAt - clock.now());
    const server = await setUp(requests, { schema, createSchema, address, leftMs });
    return new PostgresStore({ link, requests, schema, listens, server }, parts);
  } catch (error) {
    await closeInTime(link, clock);
    throw error;
  }
}
