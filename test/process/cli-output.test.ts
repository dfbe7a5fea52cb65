// Goal: names and values written by other processes cannot control the terminal of a user of
// `tenure`. Method: the built program on a SQLite file in which a holder with a hostile name holds
// a lease.
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { connect } from "../../src/index.ts";
import { type CliWorld, cliWorlds } from "../support/process/cli.ts";

const world = cliWorlds();

/** Clears the screen, sets the title, starts a new line, and uses the one-byte form of ESC [. */
const HOSTILE = "evil\u001B[2J\u001B]0;owned\u0007\ntenure: all is well\u009B2J\u007F";

/** All control characters except the newline. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: intended
const CONTROL = /[\u0000-\u0009\u000B-\u001F\u007F-\u009F]/;

async function heldByHostile(): Promise<CliWorld> {
  const here = world();
  const store = `sqlite:${join(here.folder, "tenure.db")}`;
  const tenure = await connect(store, { holderId: HOSTILE });
  onTestFinished(() => tenure.close({ drainMs: 0 }));
  await tenure.acquire("job", { value: { note: HOSTILE } });
  return here;
}

test.each([
  [["run", "job", "--no-wait", "--", "true"], EXIT.busy],
  [["run", "job", "--no-wait", "--json", "--", "true"], EXIT.busy],
  [["show", "job"], EXIT.ok],
  [["show", "job", "--json"], EXIT.ok],
  [["ls"], EXIT.ok],
  [["ls", "--json"], EXIT.ok],
  [["revoke", "job", "--yes"], EXIT.ok],
])("%j prints no control characters from a holder's name", async (args, code) => {
  const { out, err, exit } = await (await heldByHostile()).run(args);
  expect(exit.code).toBe(code);
  expect(out + err).toContain("evil");
  expect(out + err).not.toMatch(CONTROL);
  expect(out + err).not.toMatch(/^tenure: all is well/m);
});

test("elect prints no control characters from the leader's name", async () => {
  const cli = (await heldByHostile()).start(["elect", "job"]);
  const out = await cli.said("leads");
  expect(out).not.toMatch(CONTROL);
  expect(out.trim().split("\n")).toHaveLength(1);
});
