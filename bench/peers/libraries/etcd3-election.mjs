// etcd3's Election, used as a lock: it waits by a watch, and resigns. It reports a loss as an
// `error` of the campaign, after which its documentation says to stop. Defaults except the ttl,
// which is in whole seconds.
import { requirePeer, withToken } from "./shared.mjs";

const { Etcd3 } = requirePeer("etcd3");

async function open(url) {
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

export async function holder({ url, ttlMs }) {
  const client = await open(url);
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
  const client = await open(url);
  return {
    lock: async (resource) => {
      const campaign = await win(client, { resource, ttlMs, onError: () => undefined });
      return withToken(
        () => campaign.resign(),
        () => campaign.getCampaignKey(),
      );
    },
    close: () => client.close(),
  };
}
