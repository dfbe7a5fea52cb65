// Goal: the model of ZooKeeper has the peculiarities of the real one that renewals are designed for
// (ADR 012). Method: two servers of an ensemble on virtual time, with clients connected directly.
import { expect, test } from "vitest";
import {
  connectFrame,
  exists,
  type Message,
  requestFrame,
  setData,
} from "../../src/clients/zookeeper/messages.ts";
import { Connection } from "../models/zookeeper/connection.ts";
import { Ensemble, TICK_MS } from "../models/zookeeper/ensemble.ts";
import { Member } from "../models/zookeeper/member.ts";
import { Sessions } from "../models/zookeeper/sessions.ts";
import { Witness } from "../models/zookeeper/witness.ts";
import { Chance } from "../world/chance.ts";
import { HostClocks } from "../world/host-clocks.ts";
import { FINE, Network } from "../world/network.ts";
import { Program } from "../world/program.ts";
import { Schedule } from "../world/schedule.ts";
import { Trace } from "../world/trace.ts";

const TIMEOUT_MS = 1_000;

class World {
  readonly schedule = new Schedule();
  readonly ensemble: Ensemble;
  readonly first: Member;
  readonly second: Member;

  constructor() {
    const trace = new Trace(() => this.schedule.now);
    const chance = new Chance("zookeeper");
    const parts = { schedule: this.schedule, trace, chance, weather: FINE };
    this.ensemble = new Ensemble(this.schedule, new Network(parts), new Witness(trace));
    const [first, second] = ["zk1", "zk2"].map((name, index) => {
      const clocks = new HostClocks(this.schedule, { rate: 1, offsetMs: 7_000 * index, name });
      const program = new Program({ name, schedule: this.schedule, clocks, chance });
      return new Member(program, this.ensemble, index, false);
    }) as [Member, Member];
    this.first = first;
    this.second = second;
    first.begin();
    second.begin();
  }

  pass(ms: number): void {
    const end = this.schedule.now + ms;
    while ((this.schedule.nextAt ?? Number.POSITIVE_INFINITY) <= end) this.schedule.step();
    this.schedule.now = end;
  }
}

/** A client's connection and the answers it received. */
class Client {
  readonly answers: Buffer[] = [];
  isClosed = false;
  readonly #member: Member;
  readonly connection: Connection;

  constructor(member: Member, sessionId = 0n) {
    this.#member = member;
    const send = (answers: readonly Buffer[]): void => void this.answers.push(...answers);
    this.connection = new Connection(send, () => {
      this.isClosed = true;
    });
    const request = { lastZxid: 0n, timeoutMs: TIMEOUT_MS, sessionId, password: Buffer.alloc(16) };
    member.accept(this.connection);
    if (this.connection.isOpen) member.receive(this.connection, connectFrame(request));
  }

  ask(message: Message): void {
    if (this.connection.isOpen) this.#member.receive(this.connection, requestFrame(1, message));
  }
}

test("a session ends at the first tick after its timeout", () => {
  let now = 10;
  const sessions = new Sessions(TICK_MS, () => now);
  sessions.start(1, TIMEOUT_MS, undefined);
  const { expiresAt, endsAt } = sessions.get(1) ?? { expiresAt: 0, endsAt: 0 };
  expect([expiresAt, endsAt % TICK_MS]).toEqual([10 + TIMEOUT_MS, 0]);
  expect(endsAt).toBeGreaterThan(expiresAt);
  now = endsAt - 1;
  expect(sessions.due()).toEqual([]);
  now = endsAt;
  expect(sessions.due()).toHaveLength(1);
});

test("a write through a follower does not extend the session, but the next report does", () => {
  const world = new World();
  const client = new Client(world.second);
  world.pass(1);
  const { session } = client.connection;
  const readExpiry = (): number => world.first.sessions.get(session)?.expiresAt ?? 0;
  // Just after a report, and well before the next one.
  world.pass(TICK_MS / 2 - 1);
  const before = readExpiry();
  world.pass(TICK_MS / 4);
  const { length } = world.ensemble.log;
  client.ask(setData("/zookeeper", "", -1));
  world.pass(0);
  expect(world.ensemble.log).toHaveLength(length + 1);
  expect(client.answers).toHaveLength(2);
  expect(readExpiry()).toBe(before);
  world.pass(TICK_MS / 2);
  expect(readExpiry()).toBeGreaterThan(before);
});

test("a session that moves to another connection gets its full timeout, also through a follower", () => {
  const world = new World();
  const client = new Client(world.first);
  const { session } = client.connection;
  world.pass(500);
  const moved = new Client(world.second, BigInt(session));
  world.pass(0);
  expect(moved.connection.session).toBe(session);
  const { now } = world.first.program.clock;
  expect(world.first.sessions.get(session)?.expiresAt).toBe(now() + TIMEOUT_MS);
  // Requests on the old connection are rejected.
  const { length } = world.ensemble.log;
  client.ask(setData("/zookeeper", "", -1));
  expect(world.ensemble.log[length]?.refused?.error).toBe(-118);
});

test("a replaced leader answers reads for up to a tick, and the new leader restarts all timeouts", () => {
  const world = new World();
  const client = new Client(world.first);
  const { session } = client.connection;
  world.pass(100);
  world.first.program.stop();
  world.pass(900);
  expect(world.ensemble.isLed(world.second)).toBe(true);
  // Without the change of leaders, its timeout would have passed.
  world.pass(500);
  expect(world.second.tree.sessions.has(session)).toBe(true);
  const { length } = world.ensemble.log;
  world.first.program.resume();
  world.pass(TICK_MS / 4);
  client.ask(exists("/zookeeper"));
  expect(client.answers).toHaveLength(2);
  client.ask(setData("/zookeeper", "", -1));
  expect([client.answers.length, world.ensemble.log.length]).toEqual([2, length]);
  world.pass(2 * TICK_MS);
  expect(client.isClosed).toBe(true);
  expect(world.first.role).toBe("following");
  // The new leader receives no report of the session and ends it after its timeout.
  world.pass(TIMEOUT_MS);
  expect(world.second.tree.sessions.has(session)).toBe(false);
  expect(world.first.tree.sessions.has(session)).toBe(false);
});
