// Goal: after kill -9 at any moment, a guarded file is intact, contains every acknowledged write,
// and still rejects lower tokens. Method: a process that writes without a pause is killed
// repeatedly at varying moments, each time with a larger token. Every line begins and ends with the
// same name, so a torn line is recognized.
import { chmodSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { fileGuard } from "../../src/guards/file/index.ts";
import { crew } from "../support/process/process-children.ts";

const WRITER = new URL("./workers/file-writer.mjs", import.meta.url);
const ROUNDS = 12;
const processes = crew();

/** Returns the names of the lines, and fails if a line is torn. */
function readNames(file: string): string[] {
  const lines = readFileSync(file, "utf8").split("\n");
  expect(lines.pop(), "the last line is complete").toBe("");
  return lines.map((line) => {
    const [name, , last] = line.split(" ");
    expect(last, "the line is complete").toBe(name);
    return name ?? "";
  });
}

/**
 * Starts a writer, kills it, and returns the names of the writes that it reported as acknowledged.
 */
async function killWriter(file: string, token: number, replaces: boolean): Promise<string[]> {
  const writer = processes.start(WRITER, { file, token, replaces });
  await writer.heard("written");
  // The delays cover more than one write, so that some kill hits each part of a write.
  await new Promise((resolve) => setTimeout(resolve, (token * 37) % 41));
  await writer.kill();
  return writer.told.filter(({ event }) => event === "written").map(({ name }) => String(name));
}

describe("kill -9 in the middle of guarded writes to a file", () => {
  test("S2: acknowledged appends remain, torn ones are removed, and the killed writer's token is remembered", async () => {
    const folder = processes.folder();
    const file = join(folder, "ledger");
    const acknowledged: string[] = [];
    for (let token = 1; token <= ROUNDS; token += 1) {
      acknowledged.push(...(await killWriter(file, token, false)));
      const guard = fileGuard(file);
      expect(await guard.highest("ledger")).toBe(BigInt(token));
      if (token > 1) {
        const late = { resource: "ledger", token: BigInt(token - 1) };
        await expect(guard.append(late, "late\n")).rejects.toMatchObject({ code: "STALE_TOKEN" });
      }
      // The next write removes what the killed writer left.
      await guard.append(
        { resource: "ledger", token: BigInt(token) },
        `end${token} - end${token}\n`,
      );
      acknowledged.push(`end${token}`);
      await guard.close();
      const names = readNames(file);
      // Each writer may have completed one more line before the kill, without an acknowledgement.
      expect(names.filter((name) => acknowledged.includes(name))).toEqual(acknowledged);
      expect(names.length - acknowledged.length).toBeLessThanOrEqual(token);
    }
    expect(readdirSync(folder).sort()).toEqual(["ledger", "ledger.tenure"]);
  });

  test("S2: a replaced file has either the old or the new content, complete, at every moment", async () => {
    const folder = processes.folder();
    const file = join(folder, "state");
    for (let token = 1; token <= ROUNDS; token += 1) {
      const last = (await killWriter(file, token, true)).at(-1) ?? "";
      // Read before any guard has repaired the file.
      const [name = ""] = readNames(file);
      const [, turn = ""] = name.split(".");
      const [, acknowledged = ""] = last.split(".");
      expect(name.startsWith(`${token}.`)).toBe(true);
      expect([Number(acknowledged), Number(acknowledged) + 1]).toContain(Number(turn));
    }
    const guard = fileGuard(file);
    const source = { resource: "ledger", token: BigInt(ROUNDS) };
    await guard.replace(source, "the end");
    await guard.close();
    expect(readFileSync(file, "utf8")).toBe("the end");
    expect(readdirSync(folder).sort()).toEqual(["state", "state.tenure"]);
  });
});

test("a writer that is not allowed to keep the owner of a file replaces it and keeps its mode", async (context) => {
  if (process.getuid?.() !== 0) context.skip("only root can start a writer as another user");
  const folder = processes.folder();
  const file = join(folder, "data");
  writeFileSync(file, "before");
  chmodSync(file, 0o664);
  chmodSync(folder, 0o777);
  const writer = processes.start(WRITER, { file, token: 1, replaces: true }, { uid: 65_534 });
  await writer.heard("written");
  await writer.kill();
  const { uid, mode } = statSync(file);
  expect({ uid, mode: mode & 0o7777 }).toEqual({ uid: 65_534, mode: 0o664 });
});

// Closing any descriptor of a file drops all POSIX locks that the process has on it. SQLite before
// 3.51 then loses commits when another process closes the ledger.
test("S2: a second guard in one process does not drop the locks of the first", async (context) => {
  if (process.platform !== "linux") context.skip("only Linux lists the locks of a process");
  const file = join(processes.folder(), "data");
  const [first, second] = [fileGuard(file), fileGuard(file)];
  const locks = (): string[] => {
    const { ino } = statSync(`${file}.tenure`);
    const lines = readFileSync("/proc/locks", "utf8").split("\n");
    return lines.filter((line) => line.includes(` ${process.pid} `) && line.includes(`:${ino} `));
  };
  await first.advance({ resource: "ledger", token: 1n });
  expect(locks()).toHaveLength(1);
  await second.advance({ resource: "ledger", token: 2n });
  expect(locks()).toHaveLength(1);
  await Promise.all([first.close(), second.close()]);
});
