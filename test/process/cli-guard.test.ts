// Goal: `tenure guard` protects tables, reports correctly whether they are protected, and removes
// the protection only after confirmation; invalid names change nothing. Method: the built program
// on real SQLite files and a real PostgreSQL. A plain write without a guard shows whether a table
// is protected.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { postgresGuard } from "../../src/guards/postgres/index.ts";
import { sqliteGuard } from "../../src/guards/sqlite/index.ts";
import { startPostgres } from "../servers/postgres.ts";
import { useServer } from "../servers/use-server.ts";
import { useLedgers } from "../support/guards/postgres-guard-harness.ts";
import { userFiles } from "../support/guards/sqlite-guard-files.ts";
import { type Cli, type CliExit, type CliWorld, cliWorlds } from "../support/process/cli.ts";

const world = cliWorlds();
const { newFile, open } = await userFiles();

type Run = (...args: string[]) => Promise<Cli & { exit: CliExit }>;
const guardCommand =
  (here: CliWorld, database: string): Run =>
  (...args) =>
    here.run(["guard", ...args], { TENURE_DATABASE: database });
const NOT_INTACT = { intact: false, fault: expect.any(String) };

describe("on SQLite", () => {
  test("installs, checks, and removes only with --yes", async () => {
    const file = newFile();
    const database = open(file);
    const tenure = guardCommand(world(), `sqlite:${file}`);
    expect(await tenure("check")).toMatchObject({
      exit: { code: EXIT.no },
      out: "No table is protected.\n",
    });
    const installed = await tenure("install", "entry", "--resource", "ledger");
    expect([installed.exit.code, installed.out]).toEqual([
      EXIT.ok,
      "Protected entry: it now accepts writes only from the holder of ledger.\n",
    ]);
    const insert = "INSERT INTO entry (text) VALUES ('bare')";
    expect(() => database.exec(insert)).toThrow("only from the holder of 'ledger'");
    sqliteGuard(database).transaction({ resource: "ledger", token: 1n }, (db) => db.exec(insert));
    const shown = await tenure("check");
    expect(shown.exit.code).toBe(EXIT.ok);
    expect(shown.out).toMatch(
      /^TABLE +RESOURCE +GUARD +PROTECTION\nentry +ledger +tenure_guard +intact\n$/,
    );
    const asked = await tenure("remove", "entry");
    expect([asked.exit.code, asked.err]).toEqual([EXIT.usage, expect.stringContaining("--yes")]);
    expect(() => database.exec(insert)).toThrow("only from the holder");
    const removed = await tenure("remove", "entry", "--yes", "--json");
    expect(removed.exit.code).toBe(EXIT.ok);
    expect(removed.json()).toEqual({ table: "entry", resource: "ledger", removed: true });
    database.exec(insert);
    const again = await tenure("remove", "entry", "--yes");
    expect([again.exit.code, again.out]).toEqual([
      EXIT.no,
      "entry is not protected; nothing was removed.\n",
    ]);
  });

  test("check finds a dropped or changed trigger, missing parts of the guard, and an admission left open", async () => {
    const faults: [sql: string, words: RegExp][] = [
      ['DROP TRIGGER "tenure_guard:entry:delete"', /nothing refuses DELETE/],
      ["DROP TRIGGER my_tokens_admit", /parts of the guard are missing/],
      ["DROP TRIGGER my_tokens_keep_delete", /can be lowered.*my_tokens_keep_delete/],
      [
        "DROP TRIGGER my_tokens_keep_update; CREATE TRIGGER my_tokens_keep_update BEFORE UPDATE ON my_tokens BEGIN SELECT 1; END",
        /can be lowered.*my_tokens_keep_update/,
      ],
      [
        `DROP TRIGGER "tenure_guard:entry:insert"; CREATE TRIGGER "tenure_guard:entry:insert" BEFORE INSERT ON entry BEGIN SELECT 1; END`,
        /nothing refuses INSERT/,
      ],
      [
        `PRAGMA foreign_keys = OFF; INSERT INTO my_tokens_admitted (resource, token) VALUES ('it''s', '${"1".padStart(39, "0")}')`,
        /a row is left in the admission table/,
      ],
    ];
    const isFound = async ([sql, words]: [string, RegExp]): Promise<void> => {
      const file = newFile();
      const database = open(file);
      const tenure = guardCommand(world(), `sqlite:${file}`);
      await tenure("install", "entry", "--resource", "it's", "--guard", "my_tokens");
      const intact = await tenure("check", "ENTRY", "--json");
      expect([intact.exit.code, intact.json()]).toEqual([
        EXIT.ok,
        [{ table: "entry", resource: "it's", guard: "my_tokens", intact: true }],
      ]);
      database.exec(sql);
      const broken = await tenure("check", "entry", "--json");
      expect(broken.exit.code, sql).toBe(EXIT.no);
      expect(broken.json()).toMatchObject([NOT_INTACT]);
      expect(broken.out).toMatch(words);
      expect((await tenure("check")).out).toContain("BROKEN: ");
    };
    await Promise.all(faults.map(isFound));
  });

  test("a protected table that was renamed is still listed and can be removed", async () => {
    const file = newFile();
    const database = open(file);
    const tenure = guardCommand(world(), `sqlite:${file}`);
    await tenure("install", "entry", "--resource", "ledger");
    database.exec('ALTER TABLE entry RENAME TO "new; name"');
    expect((await tenure("check", "--json")).json()).toMatchObject([
      { table: "new; name", resource: "ledger", intact: true },
    ]);
    expect((await tenure("remove", "new; name", "--yes")).exit.code).toBe(EXIT.ok);
    database.exec(`INSERT INTO "new; name" (text) VALUES ('bare')`);
  });

  test("invalid input is rejected with advice, and changes nothing", async () => {
    const file = newFile();
    const database = open(file);
    database.exec("CREATE VIEW seen AS SELECT * FROM entry");
    const here = world();
    const tenure = guardCommand(here, `sqlite:${file}`);
    await tenure("install", "entry", "--resource", "ledger");
    const schema = (): unknown =>
      database.prepare("SELECT group_concat(sql) AS s FROM sqlite_schema").get()?.s;
    const before = schema();
    const refused: [string[], RegExp][] = [
      [["install", "entry", "--resource", "other"], /protected already/],
      [["install", "none", "--resource", "r"], /no such table/],
      [["install", "entry'; DROP TABLE entry; --", "--resource", "r"], /no such table/],
      [["install", 'en"try', "--resource", "r"], /no such table/],
      [["install", "seen", "--resource", "r"], /view/],
      [["install", "tenure_guard", "--resource", "r"], /guard's own/],
      [["install", "entry"], /needs --resource/],
      [["install", "entry", "--resource", ""], /--resource needs a value/],
      [["install", "--resource", "r"], /needs TABLE/],
      [["install", "entry", "--resource", "r", "--guard", "a;b"], /plain name/],
      [["remove", "--yes"], /needs TABLE/],
      [["check", "entry", "--resource", "r"], /takes no --resource/],
      [["protect", "entry"], /ACTION is one of install, remove, check/],
      [["check", "--database", "redis://x"], /postgres: or sqlite: URL/],
      [["check", "--database", "sqlite:./none.db"], /does not exist/],
    ];
    for (const [args, words] of refused) {
      const cli = await tenure(...args);
      expect([args, cli.exit.code, cli.err]).toEqual([
        args,
        EXIT.usage,
        expect.stringMatching(words),
      ]);
    }
    expect(schema()).toBe(before);
    expect((await here.run(["guard", "check"], { TENURE_DATABASE: "" })).err).toContain(
      "No database was given.",
    );
    const junk = join(here.folder, "junk.db");
    writeFileSync(junk, "no database at all, only words ".repeat(100));
    const foreign = await tenure("check", "--database", `sqlite:${junk}`, "--json");
    expect([foreign.exit.code, JSON.parse(foreign.err)]).toMatchObject([
      EXIT.unavailable,
      { error: { code: "DATABASE_UNAVAILABLE" } },
    ]);
  });
});

describe("on PostgreSQL", () => {
  const postgres = useServer(startPostgres);
  const newLedger = useLedgers(postgres);

  test("installs, checks and removes; PostgreSQL itself parses the names", async () => {
    const ledger = await newLedger();
    const { table, schema } = ledger;
    const { sql, url } = postgres();
    const tenure = guardCommand(world(), url);
    await sql(`CREATE TABLE "odd; na""me" (id int)`);
    const own = ["--guard", schema];
    for (const name of [table, `"odd; na""me"`]) {
      const installed = await tenure("install", name, "--resource", "it's a ledger", ...own);
      expect([installed.err, installed.exit.code]).toEqual(["", EXIT.ok]);
    }
    await expect(sql(`INSERT INTO ${table} (text) VALUES ('bare')`)).rejects.toThrow(
      "it's a ledger",
    );
    await expect(sql(`INSERT INTO "odd; na""me" VALUES (1)`)).rejects.toThrow("it's a ledger");
    const shown = await tenure("check", table, "--json");
    expect([shown.exit.code, shown.json()]).toEqual([
      EXIT.ok,
      [{ table, resource: "it's a ledger", guard: schema, intact: true }],
    ]);
    expect((await tenure("check")).out).toContain(`public."odd; na""me"`);
    const guard = postgresGuard(ledger.pool(), { prefix: schema });
    await guard.transaction({ resource: "it's a ledger", token: 1n }, (client) =>
      client.query(`INSERT INTO ${table} (text) VALUES ('guarded')`),
    );
    expect((await tenure("remove", table)).exit.code).toBe(EXIT.usage);
    expect((await tenure("remove", table, "--yes")).exit.code).toBe(EXIT.ok);
    expect((await tenure("remove", table, "--yes")).exit.code).toBe(EXIT.no);
    await sql(`INSERT INTO ${table} (text) VALUES ('bare')`);
    expect((await tenure("check", table)).exit.code).toBe(EXIT.no);
    await tenure("remove", `"odd; na""me"`, "--yes");
  });

  test("check finds disabled, changed and replaced parts, and a later partition without a trigger", async () => {
    const { sql, url } = postgres();
    const tenure = guardCommand(world(), url);
    type Fault = [sql: (table: string, schema: string) => string, words: RegExp];
    const faults: Fault[] = [
      [(table) => `ALTER TABLE ${table} DISABLE TRIGGER tenure_guard`, /disabled/],
      [(table) => `ALTER TABLE ${table} DISABLE TRIGGER USER`, /disabled/],
      [(table) => `ALTER TABLE ${table} ENABLE REPLICA TRIGGER tenure_guard`, /replication only/],
      [
        (table, schema) =>
          `DROP TRIGGER tenure_guard ON ${table}; CREATE TRIGGER tenure_guard BEFORE INSERT ON ${table}
           FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.refuse_unadmitted('r')`,
        /not the one that was installed/,
      ],
      [
        (_table, schema) =>
          `CREATE OR REPLACE FUNCTION ${schema}.refuse_unadmitted() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
           AS 'BEGIN RETURN NULL; END'`,
        /refuse_unadmitted\(\) was changed/,
      ],
      [
        (_table, schema) =>
          `CREATE OR REPLACE FUNCTION ${schema}.admit(p_resource text, p_token numeric, p_wait_ms integer DEFAULT NULL)
           RETURNS numeric LANGUAGE plpgsql SECURITY DEFINER AS 'BEGIN RETURN p_token; END'`,
        /admit\(\) was changed/,
      ],
      [(_table, schema) => `GRANT SELECT ON ${schema}.secret TO PUBLIC`, /PUBLIC may read/],
      [
        (_table, schema) => `GRANT SELECT (value) ON ${schema}.secret TO pg_monitor`,
        /pg_monitor may read/,
      ],
      [(_table, schema) => `DROP TABLE ${schema}.secret`, /secret is missing/],
      [
        (_table, schema) => `ALTER TABLE ${schema}.highest DISABLE TRIGGER keep_highest`,
        /can be lowered/,
      ],
      [
        (table) => `CREATE TABLE ${table}_later () INHERITS (${table})`,
        /children are not protected: public\.entry_\d+_later/,
      ],
    ];
    const isFound = async ([change, words]: Fault): Promise<void> => {
      const { table, schema } = await newLedger();
      await tenure("install", table, "--resource", "r", "--guard", schema);
      expect((await tenure("check", table)).exit.code).toBe(EXIT.ok);
      await sql(change(table, schema));
      const broken = await tenure("check", table, "--json");
      expect([broken.exit.code, broken.json()]).toMatchObject([EXIT.no, [NOT_INTACT]]);
      expect(broken.out).toMatch(words);
    };
    await Promise.all(faults.map(isFound));
  });

  test("invalid input is rejected with advice, and an unreachable server exits with 69", async () => {
    const { table, schema } = await newLedger();
    const { sql, url } = postgres();
    const tenure = guardCommand(world(), url);
    const own = ["--resource", "r", "--guard", schema];
    await tenure("install", table, ...own);
    const refused: [string[], RegExp][] = [
      [["install", table, ...own], /protected already/],
      [["install", "public.none", ...own], /no such table/],
      [["install", "none.entry", ...own], /no such schema|no such table/],
      [["install", `${table}; DROP TABLE ${table}`, ...own], /not a name|no such table/],
      [["install", "pg_catalog.pg_class", ...own], /only tables/],
      [["install", `${schema}.highest`, ...own], /guard's own/],
      [["install", table, "--resource", "r", "--guard", 'a"b'], /schema/],
      [["check", "public.none"], /no such table/],
    ];
    for (const [args, words] of refused) {
      const cli = await tenure(...args);
      expect([args, cli.exit.code, cli.err]).toEqual([
        args,
        EXIT.usage,
        expect.stringMatching(words),
      ]);
    }
    await expect(sql(`INSERT INTO ${table} (text) VALUES ('bare')`)).rejects.toThrow(
      'holder of "r"',
    );
    const unreachable = await tenure("check", "--database", "postgres://u:secret@127.0.0.1:1/app");
    expect(unreachable.exit.code).toBe(EXIT.unavailable);
    expect(unreachable.err).not.toContain("secret");
  });
});
