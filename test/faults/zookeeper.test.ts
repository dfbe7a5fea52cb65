// Goal: on ZooKeeper the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { zookeeperRequests } from "../servers/requests.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { allFaults } from "./all-faults.ts";

allFaults({
  name: "zookeeper",
  // As it comes: every change is on disk before its answer.
  start: () => startZooKeeper({ own: true }),
  // Sessions end at the next tick; a server that started again gives every session its whole time anew.
  lagMs: 2_500,
  timing: usualTiming,
  counted: {
    start: () => startZooKeeper({ own: true }),
    requests: zookeeperRequests,
    // The renewal; a look every half minute.
    perRenewal: 1.3,
  },
});
