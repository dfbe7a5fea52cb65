// Counts the requests that leases have caused since a server started. The numbers come from the
// server itself.
import type { PostgresServer } from "./postgres.ts";
import type { RedisServer } from "./redis.ts";
import type { RunningServer } from "./server.ts";
import type { ZooKeeperServer } from "./zookeeper.ts";

/** Counts unary calls, and messages on the stream of renewals. */
export async function etcdRequests({ host, port }: RunningServer): Promise<number> {
  const text = await (await fetch(`http://${host}:${port}/metrics`)).text();
  const calls =
    /^grpc_server_started_total\{grpc_method="(Txn|Range|LeaseGrant|LeaseRevoke)".*\} (\d+)$/gm;
  const messages = /^grpc_server_msg_received_total\{grpc_method="(LeaseKeepAlive)".*\} (\d+)$/gm;
  const found = [...text.matchAll(calls), ...text.matchAll(messages)];
  return found.reduce((sum, match) => sum + Number(match[2]), 0);
}

/** Counts every message of a client: unary calls, and messages on streams, watches included. */
export async function etcdMessages({ host, port }: RunningServer): Promise<number> {
  const text = await (await fetch(`http://${host}:${port}/metrics`)).text();
  const found = [...text.matchAll(/^grpc_server_msg_received_total\{.*\} (\d+)$/gm)];
  return found.reduce((sum, match) => sum + Number(match[1]), 0);
}

/** Every request of the Redis store is one script. */
export async function redisRequests(server: RedisServer): Promise<number> {
  const stats = String(await server.command("INFO", "commandstats"));
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(stats)?.[1] ?? 0);
}

/**
 * Counts lines of the server's log, because its statistics are delayed by seconds. The server has
 * to run with `log_statement` set to "all".
 */
export async function postgresRequests(server: PostgresServer): Promise<number> {
  return server.log().match(/LOG: {2}(execute|statement)/g)?.length ?? 0;
}

/** Includes the pings of idle sessions. */
export async function zookeeperRequests(server: ZooKeeperServer): Promise<number> {
  return Number(/zk_packets_received\s+(\d+)/.exec(await server.word("mntr"))?.[1] ?? 0);
}
