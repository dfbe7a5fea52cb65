// Which store a command talks to: --store, else TENURE_STORE, else a file of this user that is made on first use.

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
 * TENURE_STORE of a command whose store is hidden. Without any, a tenure inside the command would take the file of this user,
 * in silence, and hold leases that are not those of the other machines.
 */
export const HIDDEN_STORE = "hidden:";

export interface Opened {
  readonly tenure: Tenure;
  /** The same store below it, for what the library has no call for. */
  readonly store: Store;
}

export async function openStore(options: Options): Promise<Opened> {
  // Node's remark about its own SQLite is nothing that the user of a program can act on.
  hideExperimentalWarnings();
  const open = await chosenStore(options);
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

/** For commands that exclude other processes, which a memory store cannot do. */
export async function openSharedStore(options: Options): Promise<Opened> {
  const opened = await openStore(options);
  if (opened.store.guarantees.store === "memory") {
    warn(
      "A memory: store is known only to this process, so no other process is excluded. Name a store that all of them use, such as --store sqlite:./tenure.db.",
    );
  }
  return opened;
}

async function chosenStore(options: Options): Promise<OpenStore> {
  const url = options.text("store") ?? process.env.TENURE_STORE;
  if (url === HIDDEN_STORE) {
    throw new UsageError(
      "The tenure that runs this command hides its store (--hide-store). Name a store with --store URL, or run the outer one without --hide-store.",
    );
  }
  if (url !== undefined && url !== "") return fromUrl(url);
  const { sqliteStore } = await import("../../stores/sqlite/index.ts");
  return sqliteStore({ file: defaultFile() });
}

function defaultFile(): string {
  const { XDG_STATE_HOME: given = "" } = process.env;
  // The specification says to ignore a relative path.
  const state = isAbsolute(given) ? given : join(homedir(), ".local", "state");
  const folder = join(state, "tenure");
  // Only this user: who can write the file can take every lease in it.
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  return join(folder, "tenure.db");
}
