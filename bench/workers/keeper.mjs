// One process of the failover: holds one lock and keeps it by its library's own renewal, until it is killed.

const [, , library, url, ttlMs] = process.argv;
const now = () => Number(process.hrtime.bigint()) / 1e6;
const { open } = await import(`../overlap/libraries/${library}.mjs`);
const settings = { url, ttlMs: Number(ttlMs) };
const { acquire } = await open({ ...settings, timing: { ttlMs: settings.ttlMs } });

process.on("message", async ({ keep }) => {
  await acquire(keep);
  process.send(now());
});
process.send("ready");
