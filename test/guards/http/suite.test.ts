// Goal: a guarded service and fencedFetch() together follow the rule of all guards, on every
// framework. Method: the conformance suite; each guard of a test is a client of one service on
// loopback. The service stores its highest tokens in a SQLite file, and a restart is a new service
// on the same file. The effects of its handlers are what was written.
//
// The suite skips one test, because a handler that fails cannot undo its effects.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Connection, loadDriver } from "../../../src/clients/sqlite/driver.ts";
import type { GuardOptions, TokenSource } from "../../../src/guards/guard.ts";
import { fencedFetch } from "../../../src/guards/http/index.ts";
import { sqliteGuard } from "../../../src/guards/sqlite/index.ts";
import { type GuardHarness, type GuardInSuite, guardSuite } from "../../../src/testing/index.ts";
import { services } from "../../support/guards/http-services.ts";
import { oneByOne } from "../../support/stores/store-runner.ts";

const driver = await loadDriver();

/** In Express and Fastify, `url` is the path and query; in Hono, it is the whole URL. */
function findResource(request: { url?: string; req?: { url: string } }): string {
  const url = new URL(request.req?.url ?? request.url ?? "", "http://service");
  return url.searchParams.get("resource") ?? "";
}

/**
 * Converts a rejection that fencedFetch() returns as a response into an error that the suite
 * expects.
 */
async function expectDone(answer: Response): Promise<void> {
  const text = await answer.text();
  if (!answer.ok) throw Object.assign(new Error(text), { code: `HTTP_${answer.status}` });
}

for (const [name, start] of Object.entries(services)) {
  guardSuite(oneByOne, {
    name: `HTTP (${name})`,
    rollsBack: false,
    create: async (): Promise<GuardHarness> => {
      const folder = mkdtempSync(join(tmpdir(), "tenure-http-suite-"));
      const kept: [resource: string, text: string][] = [];
      const opened: Connection[] = [];
      let service: { url: string; guard: ReturnType<typeof sqliteGuard> };

      const open = async (): Promise<void> => {
        const database = driver.open(join(folder, "highest.db"));
        database.exec("PRAGMA journal_mode = WAL");
        opened.push(database);
        const guard = sqliteGuard(database);
        const url = await start({ guard, resourceOf: findResource }, (body) => {
          const { resource, text } = JSON.parse(body) as { resource: string; text?: string };
          if (text !== undefined) kept.push([resource, text]);
        });
        service = { url, guard };
      };
      await open();

      const client = (options: GuardOptions = {}): GuardInSuite => {
        const send = fencedFetch(fetch, options);
        const { url, guard } = service;
        // A request without a text writes nothing and only advances.
        const ask = async (source: TokenSource | undefined, text?: string): Promise<void> => {
          const resource = source?.resource ?? "ledger";
          const answer = await send(`${url}?${new URLSearchParams({ resource })}`, {
            method: "PUT",
            body: JSON.stringify({ resource, text }),
            headers: { "content-type": "text/plain" },
            ...(source === undefined ? {} : { lease: source }),
          });
          await expectDone(answer);
        };
        return {
          advance: (source) => ask(source),
          highest: (resource) => guard.highest(resource),
          write: (source, text) => ask(source, text),
        };
      };

      return {
        open: (options) => client(options),
        written: (resource) => kept.filter(([of]) => of === resource).map(([, text]) => text),
        restart: open,
        close: () => {
          for (const database of opened) database.close();
          rmSync(folder, { recursive: true, force: true });
        },
      };
    },
  });
}
