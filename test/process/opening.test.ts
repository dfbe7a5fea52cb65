// Goal: processes can create a store file together, other users cannot read it, and a path that
// cannot be written is left unchanged. Method: 16 processes open a file that does not exist yet at
// the same moment, and the test inspects the file with a connection of its own. Other tests read
// the modes of the files, and open files and folders without the permission to write.
import { chmodSync, chownSync, mkdirSync, readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { crew } from "../support/process/process-children.ts";
import { numberOf, peek } from "../support/process/process-file.ts";
import { failed, puppet } from "../support/process/process-puppet.ts";

const OPENER = new URL("./workers/opener.mjs", import.meta.url);
const OPENERS = 16;
const ROUNDS = 3;
/** Root may write anywhere, so missing permissions are tested as this user. It needs no name. */
const OTHER_UID = 65_534;
const processes = crew();

async function openTogether(file: string): Promise<void> {
  const openers = Array.from({ length: OPENERS }, (_, index) =>
    processes.start(OPENER, { file, resource: index % 2 === 0 ? "shared" : `own/${index}` }),
  );
  await Promise.all(openers.map((opener) => opener.heard("ready")));
  for (const opener of openers) opener.say({ do: "go" });
  const told = await Promise.all(openers.map((opener) => opener.heard("opened")));
  expect(told.map((answer) => answer.error)).toEqual(openers.map(() => undefined));
  // Half of them acquired the same resource, each with a token of its own.
  const shared = told
    .filter((_, index) => index % 2 === 0)
    .map((answer) => BigInt(String(answer.token)));
  expect(new Set(shared).size).toBe(OPENERS / 2);
}

test("16 processes that open a new file at the same moment all succeed, and share one schema", async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const file = join(processes.folder(), "tenure.db");
    await openTogether(file);
    const query = peek(processes, file);
    const tables = query(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    );
    expect(tables.map((row) => row.name)).toEqual(["lease", "revocation", "session", "waiter"]);
    expect(numberOf(query("SELECT count(*) FROM lease"))).toBe(1 + OPENERS / 2);
    expect(query("PRAGMA integrity_check")).toEqual([{ integrity_check: "ok" }]);
  }
});

test("only the owner can read or write the file and its side files, whatever the umask", async () => {
  const folder = processes.folder();
  const umask = process.umask(0);
  try {
    const holder = await puppet(processes, join(folder, "tenure.db"));
    await holder.acquire("settlement");
  } finally {
    process.umask(umask);
  }
  const modes = readdirSync(folder).map((name) => [
    name,
    statSync(join(folder, name)).mode & 0o777,
  ]);
  expect(modes.sort()).toEqual([
    ["tenure.db", 0o600],
    ["tenure.db-shm", 0o600],
    ["tenure.db-wal", 0o600],
  ]);
});

/** Creates a folder whose owner is not root, and returns it with the user to run workers as. */
function makeFolder(): { folder: string; uid: number | undefined } {
  const folder = join(processes.folder(), "own");
  mkdirSync(folder);
  if (process.getuid?.() !== 0) return { folder, uid: undefined };
  chmodSync(join(folder, ".."), 0o755);
  chownSync(folder, OTHER_UID, OTHER_UID);
  return { folder, uid: OTHER_UID };
}

test("a read-only file is rejected with StoreUnusableError and left unchanged", async () => {
  const { folder, uid } = makeFolder();
  const file = join(folder, "tenure.db");
  const first = await puppet(processes, file, {}, { uid });
  const { token } = await first.acquire("settlement");
  await first.call("close", {});
  const before = readFileSync(file);
  chmodSync(file, 0o400);
  const error = await failed(puppet(processes, file, {}, { uid }));
  expect([error.name, error.code]).toEqual(["StoreUnusableError", "STORE_UNUSABLE"]);
  expect(error.message).toContain(file);
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(readdirSync(folder)).toEqual(["tenure.db"]);
  chmodSync(file, 0o600);
  const second = await puppet(processes, file, {}, { uid });
  expect((await second.acquire("settlement")).token).toBeGreaterThan(token);
});

test("a read-only folder is rejected with StoreUnusableError, and nothing is created", async () => {
  const { folder, uid } = makeFolder();
  chmodSync(folder, 0o500);
  const error = await failed(puppet(processes, join(folder, "tenure.db"), {}, { uid }));
  expect([error.name, error.code]).toEqual(["StoreUnusableError", "STORE_UNUSABLE"]);
  expect(readdirSync(folder)).toEqual([]);
  chmodSync(folder, 0o700);
});
