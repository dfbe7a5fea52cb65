// Simulates ZooKeeper: the real ZooKeeper store, down to its bytes, on a model of a standalone
// server or of an ensemble.

import { zookeeperStore } from "../../../src/stores/zookeeper/index.ts";
import type { Program } from "../../world/program.ts";
import type { Engine, Site } from "../model.ts";
import { dial } from "./connection.ts";
import { Ensemble, TICK_MS } from "./ensemble.ts";
import { Member } from "./member.ts";
import { Witness } from "./witness.ts";

/** What clients get as the list of hosts. */
type Shape =
  /** One standalone server. */
  | "alone"
  /** An ensemble, with each member listed. */
  | "listed"
  /** An ensemble reached through one address. */
  | "balanced";

const BALANCER = "zk";

/** Draws one of the three shapes. */
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
      const chooseMember = (host: string): Member =>
        members.find(({ program }) => program.name === host) ?? chance.pick(members);
      return zookeeperStore({
        url: `zookeeper://${shape === "balanced" ? BALANCER : names}`,
        connect: (host) => dial(network, client, chooseMember(host)),
        tickMs: TICK_MS,
        connectMs: 2_000,
      });
    },
  };
}
