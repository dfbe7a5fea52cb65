#!/usr/bin/env node
// A small journal service. One primary writes; the standbys keep all entries in memory and take
// over.
//
//   node examples/warm-standby.mjs a     in several terminals, with different names
//   curl -L -d "an entry" URL            any of them: a standby redirects to the primary
//   curl URL                             prints the entries in memory
//
// Kill the primary with -9, and a standby takes over.
//
// `prepare` reads the journal and follows it, so that a takeover takes no longer than the
// acquisition. Every write goes through a guard. The guard advances to the new term before the new
// primary starts, so that a former primary that was frozen can no longer write.
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
/** The lease while this process is the primary. */
let primaryLease;

function readJournal() {
  entries = existsSync(FILE) ? readFileSync(FILE, "utf8").split("\n").slice(0, -1) : [];
}

async function write(entry) {
  await primaryLease.run((lease) => journal.append(lease, `${entry}\n`)); // on disk, or rejected
  entries.push(entry);
}

const server = createServer(async (request, response) => {
  try {
    if (request.method === "GET") return response.end(`${entries.join("\n")}\n`);
    if (primaryLease === undefined) {
      const { leader } = await election.leader();
      if (leader === undefined || leader.holderId === name)
        return response.writeHead(503, { "retry-after": "1" }).end("there is no primary\n");
      return response.writeHead(307, { location: leader.value.url }).end();
    }
    let body = "";
    for await (const chunk of request) body += chunk;
    await write(body.replaceAll("\n", " "));
    response.writeHead(201).end(`${entries.length}\n`);
  } catch (error) {
    // Lost, in doubt or rejected. The client has to ask the next primary whether it was written.
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
    // The guard has advanced, so no former primary can write: the file is complete now.
    readJournal();
    primaryLease = lease;
    say(`is primary in term ${lease.token} with ${entries.length} entries`);
    if (!stopping.aborted)
      await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
    primaryLease = undefined;
  },
});
election.start();
onShutdown(tenure, { graceMs: 10_000, before: () => void server.close() });
say(`listens on ${url}`);
