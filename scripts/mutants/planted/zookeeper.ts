// In the store for ZooKeeper.

import type { Mutant } from "../mutant.ts";

export const ZOOKEEPER_MUTANTS: readonly Mutant[] = [
  {
    name: "zookeeper: granted while held",
    file: "stores/zookeeper/place.ts",
    find: "if (written.stat.childCount === 1)",
    replace: "if (written.stat.childCount <= 2)",
    store: "zookeeper",
  },
  {
    name: "zookeeper: the second in line takes its turn",
    file: "stores/zookeeper/place.ts",
    find: "if (index > 0) return",
    replace: "if (index > 1) return",
    store: "zookeeper",
  },
  {
    name: "zookeeper: a place whose answer got lost is not given back",
    file: "stores/zookeeper/place.ts",
    find: "if (!this.#wasInDoubt) return known;",
    replace: "if (!this.#wasInDoubt || known === false) return known;",
    store: "zookeeper",
  },
  {
    name: "zookeeper: who is passed over may have taken",
    file: "stores/zookeeper/waiting.ts",
    find: "remove(paths[0], WAITING)",
    replace: "remove(paths[0])",
    store: "zookeeper",
  },
  {
    name: "zookeeper: who comes to be the first is passed over at once",
    file: "stores/zookeeper/waiting.ts",
    find: "patience.since + HEAD_START_MS - now",
    replace: "0 * (patience.since + HEAD_START_MS - now)",
    store: "zookeeper",
  },
  {
    name: "zookeeper: a release of an older token counts",
    file: "stores/zookeeper/lease-session.ts",
    find: "if (held?.entry.token !== ref.token) return",
    replace: "if (held === undefined) return",
    store: "zookeeper",
  },
  {
    name: "zookeeper: a renewal through a follower is believed",
    file: "stores/zookeeper/leader.ts",
    find: "return hosts.length > 1 && isLeader(host, probe);",
    replace: "return hosts.length >= 1 || isLeader(host, probe);",
    store: "zookeeper",
  },
  {
    name: "zookeeper: a tenth more than was granted",
    file: "stores/zookeeper.ts",
    find: "ttlMs: session.link.timeoutMs, gone",
    replace: "ttlMs: 1.1 * session.link.timeoutMs, gone",
    store: "zookeeper",
  },
  {
    name: "zookeeper: waiters do not hear of a lost connection",
    file: "stores/zookeeper/lease-session.ts",
    find: "this.link.onLost = () => this.bells.ringAll();",
    replace: "this.link.onLost = () => undefined;",
    store: "zookeeper",
  },
  {
    name: "zookeeper: a place that may still come is forgotten",
    file: "stores/zookeeper/lease-session.ts",
    find: "    if (!entry.place.mayComeLate) return;\n",
    replace: "    if (entry.place !== undefined) return;\n",
    store: "zookeeper",
    test: "src/stores/zookeeper/lease-session.test.ts",
  },
  {
    name: "zookeeper: a server that is behind is not asked again",
    file: "stores/zookeeper/link.ts",
    find: "const CATCH_UP_MS: readonly number[] = [5, 20];",
    replace: "const CATCH_UP_MS: readonly number[] = [];",
    store: "zookeeper",
    test: "src/stores/zookeeper/link.test.ts",
  },
  {
    name: "zookeeper: what an old connection made fail is not asked again",
    file: "stores/zookeeper/link.ts",
    find: "const MOVED_TRIES = 2;",
    replace: "const MOVED_TRIES = 1;",
    store: "zookeeper",
    test: "src/stores/zookeeper/link.test.ts",
  },
];
