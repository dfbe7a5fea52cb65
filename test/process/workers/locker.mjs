// An outsider that holds SQLite's write lock of the file: a backup, a person with a shell, a process that hangs inside
// its transaction. It lets go when it is told to, or after a given time.
import Database from "better-sqlite3";
import { onCommand, settings, tell } from "./kit.mjs";

const database = new Database(settings.file, { timeout: 5_000 });
const unlock = () => {
  database.exec("COMMIT");
  tell("unlocked");
};
onCommand((command) => {
  if (command.do === "unlock") unlock();
  if (command.do !== "lock") return;
  database.exec("BEGIN IMMEDIATE");
  tell("locked");
  if (command.forMs !== undefined) setTimeout(unlock, command.forMs);
});
tell("ready");
