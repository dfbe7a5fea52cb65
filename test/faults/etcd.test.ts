// Goal: the invariants hold on etcd under every fault. Method: real processes, a real server, and
// recorded histories.
import { startEtcd } from "../servers/etcd.ts";
import { etcdRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { testAllFaults } from "./all-faults.ts";

testAllFaults({
  name: "etcd",
  // With default settings, every answer waits for an fsync.
  start: () => startEtcd({ own: true }),
  // It checks for expired leases every half second, and after a restart gives every lease its whole
  // ttl again.
  lagMs: 2_500,
  timing: usualTiming,
  counted: {
    start: () => startEtcd({ own: true }),
    requests: etcdRequests,
    // A message on the stream, and the read that proves the answer (ADR 017).
    perRenewal: 2,
  },
});
