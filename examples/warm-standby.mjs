#!/usr/bin/env node
// A small journal service: one primary writes, the others stand by with everything in memory and take over.
//
//   node examples/warm-standby.mjs a          in as many terminals as you like, with other names
//   curl -L -d "an entry" URL                 any of them: a standby sends you to the primary
//   curl URL                                  what it has in memory; then kill the primary with -9
//
// `prepare` reads the journal and follows it, so that a takeover costs the acquisition alone. Every write goes through a guard
// that was advanced to the new term before the new primary began: a former one that was frozen writes nothing any more.
import { existsSync, readFileSync, unwatchFile, watchFile } from "node:fs";
import { createServer } from "node:http";
import { connect, onShutdown } from "tenure";
import { fileGuard } from "tenure/guards/file";

const FILE = "./journal.txt";
const [name = `node-${process.pid}`] = process.argv.slice(2);
const { TENURE_STORE = "sqlite:./tenure.db" } = process.env;
const say = (text) => console.log(`${name}: ${text}`);

const tenure = await connect(TENURE_STORE, { holderId: name });
const journal = fileGuard(FILE, { resource: "journal/primary" });
let entries = [];
/** The lease, while this is the primary. */
let reign;

function readJournal() {
  entries = existsSync(FILE) ? readFileSync(FILE, "utf8").split("\n").slice(0, -1) : [];
}

async function write(entry) {
  await reign.run((lease) => journal.append(lease, `${entry}\n`)); // on the disk, or refused
  entries.push(entry);
}

const server = createServer(async (request, response) => {
  try {
    if (request.method === "GET") return response.end(`${entries.join("\n")}\n`);
    if (reign === undefined) {
      const { leader } = await election.leader();
      if (leader === undefined || leader.holderId === name)
        return response.writeHead(503, { "retry-after": "1" }).end("nobody leads\n");
      return response.writeHead(307, { location: leader.value.url }).end();
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    await write(body.replaceAll("\n", " "));
    response.writeHead(201).end(`${entries.length}\n`);
  } catch (error) {
    // Lost, in doubt or refused: whether it was written is for the client to look up at the next primary.
    response.writeHead(503).end(`${error.message}\n`);
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const url = `http://127.0.0.1:${server.address().port}/`;

const election = tenure.election("journal/primary", {
  value: { url },
  guards: [journal],
  prepare: (signal) => {
    readJournal();
    watchFile(FILE, { interval: 100 }, readJournal);
    signal.addEventListener("abort", () => unwatchFile(FILE, readJournal));
    say(`stands by with ${entries.length} entries`);
  },
  lead: async (lease, stopping) => {
    unwatchFile(FILE, readJournal);
    // The guard is advanced, so nobody else can write any more: what is in the file now is everything.
    readJournal();
    reign = lease;
    say(`is primary in term ${lease.token} with ${entries.length} entries`);
    if (!stopping.aborted)
      await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
    reign = undefined;
  },
});
election.start();
onShutdown(tenure, { graceMs: 10_000, before: () => void server.close() });
say(`listens on ${url}`);
