// SQLite in the world: the real store and the real library on a database in memory. All programs run on one machine, whose boot
// clock they share; there is no network between them and the file, but locks, a disk, and a machine that starts again.

import { SqliteStore } from "../../../src/stores/sqlite/store.ts";
import type { Engine, Site } from "../model.ts";
import { loadDatabase, newDatabase } from "./database.ts";
import { nearSide } from "./near-side.ts";
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
      return nearSide(store, { program: client, schedule, network });
    },
    close: () => database.close(),
  };
};

export const sqliteEngine: Engine = Object.assign(build, { ready: loadDatabase });
