// Goal: if another program writes into the ledger, a write is rejected with a clear error or
// follows the rule, and the guarded file never loses data of others (S2, S8). Method: a real ledger
// whose rows are replaced and whose bytes are damaged, next to a file with known contents.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, expect, test } from "vitest";
import { hostileBytes } from "../../../test/support/stores/hostile.ts";
import { loadDriver } from "../../clients/sqlite/driver.ts";
import { isTenureError, StoreUnusableError } from "../../core/errors.ts";
import { fileGuard } from "./index.ts";

const folder = mkdtempSync(join(tmpdir(), "tenure-ledger-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const driver = await loadDriver();
const source = { resource: "r", token: 7n };
const CONTENTS = "what others wrote";
let files = 0;

/** A file with a ledger of its own, into which this SQL was written. */
async function withLedger(
  sql: string,
): Promise<{ readonly file: string; readonly ledger: string }> {
  files += 1;
  const file = join(folder, `data-${files}`);
  const ledger = `${file}.tenure`;
  writeFileSync(file, CONTENTS);
  const guard = fileGuard(file, { ledger });
  await guard.advance({ resource: "r", token: 5n });
  await guard.close();
  const connection = driver.open(ledger);
  connection.exec(`PRAGMA ignore_check_constraints = ON; ${sql}`);
  connection.close();
  return { file, ledger };
}

async function append(paths: { readonly file: string; readonly ledger: string }): Promise<unknown> {
  const guard = fileGuard(paths.file, { ledger: paths.ledger, waitMs: 50 });
  try {
    return await guard.append(source, "!");
  } catch (error) {
    return error;
  } finally {
    await guard.close();
  }
}

test.each([
  "-5, 1000000",
  "'text', 9",
  "NULL, 9",
  "0, 9223372036854775807",
  "1.5, 90",
  "0, -1",
  "9e99, 1",
  "x'00', 5",
])(
  "S8: an append noted as (%s) is reported as damage, and the file keeps its contents",
  async (row) => {
    const paths = await withLedger(
      "DROP TABLE append; CREATE TABLE append (id, offset, length);" +
        `INSERT INTO append VALUES (1, ${row});`,
    );
    const error = await append(paths);
    expect(error).toBeInstanceOf(StoreUnusableError);
    expect(String(error)).toContain("damaged");
    expect(readFileSync(paths.file, "utf8")).toBe(CONTENTS);
  },
);

test.each(["'junk'", "7", `'${"9".repeat(39)}'`, `'${"0".repeat(39)}'`, "''", "x'ff'"])(
  "S2: a highest token of %s is reported as damage, and nothing is written",
  async (token) => {
    const paths = await withLedger(`UPDATE highest SET token = ${token}`);
    const error = await append(paths);
    expect(error).toBeInstanceOf(StoreUnusableError);
    expect(String(error)).toContain("damaged");
    expect(readFileSync(paths.file, "utf8")).toBe(CONTENTS);
  },
);

test("an append that ended in the middle is cut off, and whole ones stay", async () => {
  const torn = await withLedger(`INSERT INTO append VALUES (1, ${CONTENTS.length - 6}, 100)`);
  expect(await append(torn)).toBeUndefined();
  expect(readFileSync(torn.file, "utf8")).toBe("what others!");
  const whole = await withLedger(`INSERT INTO append VALUES (1, ${CONTENTS.length - 6}, 6)`);
  expect(await append(whole)).toBeUndefined();
  expect(readFileSync(whole.file, "utf8")).toBe(`${CONTENTS}!`);
});

test("S8: a ledger with damaged bytes is used or refused, and the file keeps its contents", async () => {
  const { ledger } = await withLedger("");
  const valid = readFileSync(ledger);
  await fc.assert(
    fc.asyncProperty(hostileBytes(fc.constant(valid)), async (bytes) => {
      files += 1;
      const file = join(folder, `data-${files}`);
      writeFileSync(file, CONTENTS);
      writeFileSync(`${file}.tenure`, bytes);
      const error = await append({ file, ledger: `${file}.tenure` });
      expect(error === undefined || isTenureError(error), String(error)).toBe(true);
      expect([CONTENTS, `${CONTENTS}!`]).toContain(readFileSync(file, "utf8"));
    }),
    { numRuns: 40 },
  );
});
