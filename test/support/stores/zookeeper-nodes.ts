// A ZooKeeper client for tests: reads, writes and deletes nodes over its own connection.
import { connect } from "node:net";
import {
  CREATE,
  closeSession,
  create,
  digestAuth,
  ERROR,
  getChildren2,
  getData,
  type Message,
  readDataAndStat,
  remove,
  type Stat,
  XID,
} from "../../../src/clients/zookeeper/messages.ts";
import { type Reply, Wire } from "../../../src/clients/zookeeper/wire.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}

const SESSION_TIMEOUT_MS = 10_000;

/** A session with a ZooKeeper server, as an administrator's console would open it. */
export class Console implements AsyncDisposable {
  readonly #wire: Wire;

  private constructor(wire: Wire) {
    this.#wire = wire;
  }

  static async open({ host, port }: Address, auth?: string): Promise<Console> {
    const wire = new Wire(connect({ host, port, noDelay: true }));
    const password = Buffer.alloc(16);
    await wire.shakeHands({ lastZxid: 0n, timeoutMs: SESSION_TIMEOUT_MS, sessionId: 0n, password });
    const console = new Console(wire);
    if (auth !== undefined) await wire.send(digestAuth(auth), XID.auth);
    return console;
  }

  get wire(): Wire {
    return this.#wire;
  }

  async send(message: Message): Promise<Reply> {
    const reply = await this.#wire.send(message);
    if (reply.error !== 0) throw new Error(`error ${reply.error}`);
    return reply;
  }

  async children(path: string): Promise<string[]> {
    const reply = await this.#wire.send(getChildren2(path));
    if (reply.error === ERROR.noNode) return [];
    if (reply.error !== 0) throw new Error(`error ${reply.error}`);
    return reply.body.texts();
  }

  async read(path: string): Promise<{ data: string; stat: Stat }> {
    return readDataAndStat((await this.send(getData(path))).body);
  }

  async create(path: string, scheme = "world", id = "anyone"): Promise<void> {
    const flags = CREATE.persistent;
    await this.send(create({ path, data: "", acl: { scheme, id }, flags }));
  }

  async deleteAll(path: string): Promise<void> {
    for (const name of await this.children(path)) await this.deleteAll(`${path}/${name}`);
    await this.send(remove(path));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#wire.close(closeSession);
  }
}

/** Deletes the node and everything below it. */
export async function deleteBelow(server: Address, path: string): Promise<void> {
  await using console = await Console.open(server);
  await console.deleteAll(path);
}
