// Sessions that queue for a resource on a real ZooKeeper server, over connections that fail on
// demand.
import { connect as dial } from "node:net";
import { Duplex } from "node:stream";
import { onTestFinished } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import { RecordedEvents } from "./session-events.ts";

export const TICK_MS = 200;
export const LIMIT_MS = 5_000;

type ZooKeeperDial = (host: string, port: number) => Duplex;

interface Address {
  readonly host: string;
  readonly port: number;
}

export async function openStore(
  server: Address,
  root: string,
  connect?: ZooKeeperDial,
): Promise<Store> {
  const hosts = `${server.host}:${server.port}`;
  const store = await zookeeperStore({
    url: `zookeeper://${hosts}`,
    prefix: root,
    tickMs: TICK_MS,
    connect,
  })(systemParts());
  onTestFinished(() => store.close());
  return store;
}

interface Pair {
  /** Carries all traffic of `store`. */
  readonly link: FaultyLink;
  readonly store: Store;
  readonly other: Store;
}

/** Opens two stores with the same root, one of them on a connection that fails on demand. */
export async function openStorePair(server: Address, root: string): Promise<Pair> {
  const link = new FaultyLink();
  const store = await openStore(server, root, link.dial);
  return { link, store, other: await openStore(server, root) };
}

/** Opens a session for each id. Returns what is reported about each. */
export async function openSessions(
  store: Store,
  ...sessionIds: string[]
): Promise<RecordedEvents[]> {
  const reported: RecordedEvents[] = [];
  for (const sessionId of sessionIds) {
    const events = new RecordedEvents();
    const session = { sessionId, holderId: sessionId, ttlMs: 30_000, limitMs: LIMIT_MS };
    await store.openSession({ ...session, events });
    reported.push(events);
  }
  return reported;
}

interface Asked {
  readonly attempt?: string;
  readonly resource?: string;
  readonly queue?: boolean;
  readonly limitMs?: number;
}

export function ask(store: Store, sessionId: string, asked: Asked = {}): Promise<GrantOutcome> {
  const { attempt = `${sessionId}.1`, resource = "r", queue = true, limitMs = LIMIT_MS } = asked;
  return store.grant({ sessionId, resource, attempt, holderId: sessionId, queue, limitMs });
}

export async function take(store: Store, sessionId: string, asked: Asked = {}): Promise<bigint> {
  const outcome = await ask(store, sessionId, asked);
  if (outcome.kind !== "granted") throw new Error(`${sessionId} got ${outcome.kind}`);
  return outcome.token;
}

export function release(
  store: Store,
  sessionId: string,
  token: bigint,
  resource = "r",
): Promise<unknown> {
  return store.release({ sessionId, resource, token, limitMs: LIMIT_MS });
}

export function renew(store: Store, sessionId: string): ReturnType<Store["renew"]> {
  return store.renew({ sessionId, withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
}

/** A connection to the server that fails on demand. */
class FaultyLink {
  /**
   * Called with every chunk before it is sent. Once it returns true, the server's replies are
   * dropped.
   */
  dropRepliesFrom: (chunk: Buffer) => boolean = () => false;
  /**
   * Called with every chunk before it is sent. The chunk is sent when the returned promise
   * resolves.
   */
  delay: (chunk: Buffer) => Promise<void> | undefined = () => undefined;

  readonly dial: ZooKeeperDial = (host, port) => {
    const socket = dial({ host, port, noDelay: true });
    let dropsReplies = false;
    const stream = new Duplex({
      read: () => undefined,
      write: (chunk: Buffer, _encoding, done) => {
        dropsReplies ||= this.dropRepliesFrom(chunk);
        const send = (): unknown => socket.write(chunk, (error) => done(error));
        const waiting = this.delay(chunk);
        if (waiting === undefined) send();
        else waiting.then(send, done);
      },
      destroy: (error, done) => {
        socket.destroy();
        done(error);
      },
    });
    socket.on("data", (chunk: Buffer) => dropsReplies || stream.push(chunk));
    socket.on("close", () => stream.destroy());
    socket.on("error", () => undefined);
    return stream;
  };
}

/** The opcode of the first message in a chunk. */
export function readOpcode(chunk: Buffer): number {
  return chunk.readInt32BE(8);
}
