// Goal: the invariants hold on ZooKeeper under every fault. Method: real processes, a real server,
// and recorded histories.
import { zookeeperRequests } from "../servers/requests.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { testAllFaults } from "./all-faults.ts";

testAllFaults({
  name: "zookeeper",
  // With default settings, every change is on disk before it is answered.
  start: () => startZooKeeper({ own: true }),
  // Sessions end at the next tick, and after a restart the server gives every session its whole
  // timeout again.
  lagMs: 2_500,
  timing: usualTiming,
  counted: {
    start: () => startZooKeeper({ own: true }),
    requests: zookeeperRequests,
    // The renewal, and a check every half minute.
    perRenewal: 1.3,
  },
});
