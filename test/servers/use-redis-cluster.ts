// Starts a Redis cluster of two nodes for the tests of one file. Each node has half of the slots,
// so keys are spread over both nodes.
import { beforeAll } from "vitest";
import { until } from "./ask.ts";
import { type RedisServer, startRedis } from "./redis.ts";
import { useServer } from "./use-server.ts";

const OPTIONS = { args: ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"] };
const UP_MAX_MS = 20_000;

export interface RedisCluster {
  low(): RedisServer;
  high(): RedisServer;
}

export function useRedisCluster(): RedisCluster {
  const low = useServer(startRedis, OPTIONS);
  const high = useServer(startRedis, OPTIONS);
  beforeAll(async () => {
    await low().command("CLUSTER", "ADDSLOTSRANGE", "0", "8191");
    await high().command("CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
    await low().command("CLUSTER", "MEET", high().host, String(high().port));
    const isUp = async (server: RedisServer): Promise<boolean> =>
      String(await server.command("CLUSTER", "INFO")).includes("cluster_state:ok");
    await until("the cluster is up", async () => (await isUp(low())) && isUp(high()), UP_MAX_MS);
  }, UP_MAX_MS + 10_000);
  return { low, high };
}
