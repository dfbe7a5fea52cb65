// ZooKeeper in the world: the real store for ZooKeeper, down to its bytes, over a model of a server of its own or of an
// ensemble behind it.

import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import type { Program } from "../../world/program.ts";
import type { Engine, Site } from "../model.ts";
import { dial } from "./connection.ts";
import { Ensemble, TICK_MS } from "./ensemble.ts";
import { Member } from "./member.ts";
import { Witness } from "./witness.ts";

/** What clients are given as the list of hosts. */
type Shape =
  /** One server without an ensemble. */
  | "alone"
  /** An ensemble, each of whose members is listed. */
  | "listed"
  /** An ensemble behind one address. */
  | "balanced";

const BALANCER = "zk";

/** Which of the three it is, is drawn. */
export const zookeeperEngine: Engine = (site) => {
  const first = site.machine("zk1");
  const shape = first.chance.stream("shape").pick(["alone", "listed", "balanced"] as const);
  return zookeeperModel(site, first, shape);
};

export function zookeeperShaped(shape: Shape): Engine {
  return (site) => zookeeperModel(site, site.machine("zk1"), shape);
}

function zookeeperModel(site: Site, first: Program, shape: Shape): ReturnType<Engine> {
  const { network, schedule, trace } = site;
  const ensemble = new Ensemble(schedule, network, new Witness(trace));
  const isAlone = shape === "alone";
  const programs = isAlone ? [first] : [first, site.machine("zk2")];
  const members = programs.map((program, index) => new Member(program, ensemble, index, isAlone));
  for (const member of members) member.begin();
  const names = programs.map(({ name }) => name);
  return {
    servers: members,
    open: (client) => {
      const chance = client.chance.stream("balancer");
      const memberOf = (host: string): Member =>
        members.find(({ program }) => program.name === host) ?? chance.pick(members);
      return zookeeperStore({
        url: `zookeeper://${shape === "balanced" ? BALANCER : names}`,
        connect: (host) => dial(network, client, memberOf(host)),
        tickMs: TICK_MS,
        connectMs: 2_000,
      });
    },
  };
}
