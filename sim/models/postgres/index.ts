// Simulates PostgreSQL: the real PostgreSQL store and its link to the library pg, on a model of the
// library's connections and of the server. The server loses nothing, except on runs beyond the
// bounds (outage.ts).

import { linkFromUrl } from "../../../src/clients/postgres/pg-link.ts";
import { openOnLink } from "../../../src/stores/postgres/setup.ts";
import type { Engine } from "../model.ts";
import { simulatedPg } from "./library.ts";
import { PgServer } from "./server.ts";
import { SCHEMA } from "./statements.ts";

const CONNECT_MS = 2_000;
const URL = "postgres://model/postgres";

export const postgresEngine: Engine = (site) => {
  const { schedule, network, trace, machine } = site;
  const program = machine("store");
  const server = new PgServer(program, trace);
  const callee = { program, isDown: false, onReturn: (): void => onReturn() };
  const onReturn = site.outage?.(callee, server) ?? ((): void => server.restart());
  return {
    servers: [callee],
    open: (client) => (parts) => {
      const giveUpAt = parts.clock.now() + CONNECT_MS;
      const link = linkFromUrl(simulatedPg({ schedule, network, trace, client, callee, server }), {
        url: URL,
        address: "the model of PostgreSQL",
        connectMs: CONNECT_MS,
        listenUrl: undefined,
      });
      return openOnLink(
        link,
        { schema: SCHEMA, createSchema: true, listens: true, giveUpAt },
        parts,
      );
    },
  };
};
