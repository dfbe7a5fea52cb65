// Goal: on etcd the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startEtcd } from "../servers/etcd.ts";
import { etcdRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { allFaults } from "./all-faults.ts";

allFaults({
  name: "etcd",
  // As it comes: every answer is behind an fsync.
  start: () => startEtcd({ own: true }),
  // It looks for expired leases every half second; a server that started again gives every lease its whole ttl anew.
  lagMs: 2_500,
  timing: usualTiming,
  counted: {
    start: () => startEtcd({ own: true }),
    requests: etcdRequests,
    // A message on its stream, and the read that proves the answer (ADR 017).
    perRenewal: 2,
  },
});
