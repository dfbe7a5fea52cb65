// Many candidates in one process, each with its own session and connections: to the store they look
// like separate processes. Counts their requests, for stores that have no server to count them.
import { fromUrl } from "../../../dist/connect.js";
import { connect } from "../../../dist/index.js";
import { onCommand, report, settings } from "../../process/workers/kit.mjs";

const { url, name, count, timing, resource } = settings;
const COUNTED = ["openSession", "grant", "renew", "release", "withdraw"];
let requests = 0;
let leading;

async function open(parts) {
  const store = await (await fromUrl(url))(parts);
  return new Proxy(store, {
    get(target, key) {
      const member = Reflect.get(target, key, target);
      if (typeof member !== "function") return member;
      return (...args) => {
        if (COUNTED.includes(key)) requests += 1;
        return member.apply(target, args);
      };
    },
  });
}

async function enter(index) {
  const holderId = `${name}/${index}`;
  const tenure = await connect(open, { holderId, defaults: timing });
  const election = tenure.election(resource, {
    lead: async (lease, stopping) => {
      leading = election;
      report("leads", { token: lease.token });
      await new Promise((resolve) => stopping.addEventListener("abort", resolve));
    },
    onEvent: ({ type, error }) => {
      if (error !== undefined) report("failed", { type, message: error.message });
    },
  });
  election.start();
}

onCommand(({ do: what }) => {
  if (what === "resign") void leading?.resign({ waitMs: 0 });
  if (what === "count") report("counted", { requests });
});
// One after another: all at once, on a busy machine, they exceed their connect limits.
for (let index = 0; index < count; index += 1) await enter(index);
report("entered");
