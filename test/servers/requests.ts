// How many requests a server has been asked since it started, as far as leases cause them, counted by the server itself.
import type { PostgresServer } from "./postgres.ts";
import type { RedisServer } from "./redis.ts";
import type { RunningServer } from "./server.ts";
import type { ZooKeeperServer } from "./zookeeper.ts";

/** Single requests, and messages on the stream of renewals. */
export async function etcdRequests({ host, port }: RunningServer): Promise<number> {
  const text = await (await fetch(`http://${host}:${port}/metrics`)).text();
  const calls =
    /^grpc_server_started_total\{grpc_method="(Txn|Range|LeaseGrant|LeaseRevoke)".*\} (\d+)$/gm;
  const messages = /^grpc_server_msg_received_total\{grpc_method="(LeaseKeepAlive)".*\} (\d+)$/gm;
  const found = [...text.matchAll(calls), ...text.matchAll(messages)];
  return found.reduce((sum, match) => sum + Number(match[2]), 0);
}

/** Each request of ours is one script. */
export async function redisRequests(server: RedisServer): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

/** What its log tells: it has to run with `log_statement` set to "all". Its statistics come seconds late. */
export async function postgresRequests(server: PostgresServer): Promise<number> {
  return server.log().match(/LOG: {2}(execute|statement)/g)?.length ?? 0;
}

/** Pings of idle sessions are in it. */
export async function zookeeperRequests(server: ZooKeeperServer): Promise<number> {
  return Number(/zk_packets_received\s+(\d+)/.exec(await server.word("mntr"))?.[1] ?? 0);
}
