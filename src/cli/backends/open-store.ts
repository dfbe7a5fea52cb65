// Opens the store of a command: --store, otherwise TENURE_STORE, otherwise a SQLite file of this
// user, which is created on first use.

import { mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join } from "node:path";
import { connect, fromUrl } from "../../connect.ts";
import { warn } from "../../runtime/system.ts";
import type { OpenStore, Store } from "../../stores/contract.ts";
import type { Tenure } from "../../tenure.ts";
import { UsageError } from "../errors.ts";
import { hideExperimentalWarnings } from "../node-warnings.ts";
import type { Options } from "../parsing/arguments.ts";

/**
 * The value of TENURE_STORE for a command started with --hide-store. If the variable were unset, a
 * tenure started by the command would silently use this user's file, where no other machine sees
 * its leases.
 */
export const HIDDEN_STORE = "hidden:";

export interface Opened {
  readonly tenure: Tenure;
  /** The store that `tenure` uses, for operations that Tenure does not offer. */
  readonly store: Store;
}

export async function openStore(options: Options): Promise<Opened> {
  hideExperimentalWarnings();
  const open = await chooseStore(options);
  let store: Store | undefined;
  const tenure = await connect(
    async (parts) => {
      store = await open(parts);
      return store;
    },
    { keepProcessAlive: true },
  );
  if (store === undefined) throw new Error("connect() opened no store.");
  return { tenure, store };
}

/** For commands that must exclude other processes. Warns about a memory store, which cannot. */
export async function openSharedStore(options: Options): Promise<Opened> {
  const opened = await openStore(options);
  if (opened.store.guarantees.store === "memory") {
    warn(
      "A memory: store exists only in this process, so it excludes no other process. Use a store that all processes share, such as --store sqlite:./tenure.db.",
    );
  }
  return opened;
}

async function chooseStore(options: Options): Promise<OpenStore> {
  const url = options.text("store") ?? process.env.TENURE_STORE;
  if (url === HIDDEN_STORE) {
    throw new UsageError(
      "The outer tenure that runs this command hides its store (--hide-store). Pass --store URL, or run the outer tenure without --hide-store.",
    );
  }
  if (url !== undefined && url !== "") return fromUrl(url);
  const { sqliteStore } = await import("../../stores/sqlite/index.ts");
  return sqliteStore({ file: prepareDefaultFile() });
}

/** Creates the folder of the default store and returns the path of its file. */
function prepareDefaultFile(): string {
  const { XDG_STATE_HOME: given = "" } = process.env;
  // The XDG specification says to ignore a relative path.
  const state = isAbsolute(given) ? given : join(homedir(), ".local", "state");
  const folder = join(state, "tenure");
  // Accessible to this user only: a process that can write the file can take every lease in it.
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return join(folder, "tenure.db");
}
