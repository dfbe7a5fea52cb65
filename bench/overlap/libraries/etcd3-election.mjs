// etcd3's Election, used as a lock: it waits by a watch, and resigns. Defaults but for the ttl, in whole seconds.
import { requirePeer } from "./peer.mjs";

const { Etcd3 } = requirePeer("etcd3");

export async function locker({ url, ttlMs }) {
  const client = new Etcd3({ hosts: `http://${new URL(url).host}` });
  await client.get("warm").string();
  return {
    lock: async (resource) => {
      const election = client.election(resource, Math.ceil(ttlMs / 1_000));
      const campaign = election.campaign(String(process.pid));
      campaign.on("error", () => undefined);
      await campaign.wait();
      return () => campaign.resign();
    },
    close: () => client.close(),
  };
}
