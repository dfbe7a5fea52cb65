// Holds SQLite's write lock on the file, as a backup, a SQLite shell or a process that hangs in a
// transaction would. It releases the lock on command, or after a given time.
import Database from "better-sqlite3";
import { onCommand, report, settings } from "./kit.mjs";

const database = new Database(settings.file, { timeout: 5_000 });
const unlock = () => {
  database.exec("COMMIT");
  report("unlocked");
};
onCommand((command) => {
  if (command.do === "unlock") unlock();
  if (command.do !== "lock") return;
  database.exec("BEGIN IMMEDIATE");
  report("locked");
  if (command.forMs !== undefined) setTimeout(unlock, command.forMs);
});
report("ready");
