// Simulates SQLite: the real store and the real library on a database in memory. All programs run
// on one machine and share its boot clock. There is no network between them and the file; the
// faults are busy locks, a bad disk and a machine that reboots.

import { SqliteStore } from "../../../src/stores/sqlite/store.ts";
import type { Engine, Site } from "../model.ts";
import { loadDatabase, newDatabase } from "./database.ts";
import { deliverInTurns } from "./delivery.ts";
import { FILE, SharedFile } from "./shared-file.ts";
import { Truth } from "./truth.ts";

const build = ({ schedule, network, trace, machine }: Site): ReturnType<Engine> => {
  const program = machine("store");
  const { clocks: host } = program;
  const { hostClock } = host;
  const other = { program, isDown: false };
  const database = newDatabase();
  const truth = new Truth(database, trace, host);
  const shared = new SharedFile({ schedule, network, trace, database, truth, other });
  return {
    servers: [other],
    host,
    beforeCommit: (client, act) => shared.beforeCommit(client, act),
    open: (client) => async (parts) => {
      const opened = { connection: shared.connect(client), file: FILE, disk: shared.disk(client) };
      const store = new SqliteStore(opened, { ...parts, hostClock });
      return deliverInTurns(store, { program: client, schedule, network });
    },
    close: () => database.close(),
  };
};

export const sqliteEngine: Engine = Object.assign(build, { ready: loadDatabase });
