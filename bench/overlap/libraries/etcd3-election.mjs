// etcd3's Election, used as a lock: it waits by a watch, and resigns. A loss is an `error` of the campaign, upon which its page
// says to stop. Defaults but for the ttl, in whole seconds.
import { requirePeer, withGiven } from "./peer.mjs";

const { Etcd3 } = requirePeer("etcd3");

async function connect(url) {
  const client = new Etcd3({ hosts: `http://${new URL(url).host}` });
  await client.get("warm").string();
  return client;
}

async function win(client, { resource, ttlMs, onError }) {
  const election = client.election(resource, Math.ceil(ttlMs / 1_000));
  const campaign = election.campaign(String(process.pid));
  campaign.on("error", onError);
  await campaign.wait();
  return campaign;
}

export async function open({ url, ttlMs }) {
  const client = await connect(url);
  return {
    acquire: async (resource) => {
      let isLost = false;
      const onError = () => {
        isLost = true;
      };
      await win(client, { resource, ttlMs, onError });
      return { isHeld: () => !isLost };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const client = await connect(url);
  return {
    lock: async (resource) => {
      const campaign = await win(client, { resource, ttlMs, onError: () => undefined });
      return withGiven(
        () => campaign.resign(),
        () => campaign.getCampaignKey(),
      );
    },
    close: () => client.close(),
  };
}
