// Planted bugs: each changes one place of the shipping code, as a hurried hand might. `find` must be in the file exactly
// once. To add one, add an entry; `npm run mutants -- NAME` runs it alone.

export interface Mutant {
  readonly name: string;
  /** Below src/. */
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  /** The model that runs the changed code, where the one that was asked for does not. */
  readonly store?: string;
  /** Why no test can notice it, where that is so. */
  readonly equivalent?: string;
}

const machine = "core/session-machine.ts";
const lease = "holder/lease.ts";
const memory = "stores/memory.ts";
const postgresModel = "sim/stores/postgres/functions.ts";
const redisGrants = "stores/redis/grant-scripts.ts";
const redisLibrary = "stores/redis/script-library.ts";
const redisScripts = "stores/redis/scripts.ts";

export const MUTANTS: readonly Mutant[] = [
  {
    name: "deadline from receipt",
    file: "holder/session.ts",
    find: `type: "renewed", now: clock.now(), sentAt, grantedTtlMs`,
    replace: `type: "renewed", now: clock.now(), sentAt: clock.now(), grantedTtlMs`,
  },
  {
    name: "no margin",
    file: "core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs + 0 * marginMs",
  },
  {
    name: "margin a tenth too small",
    file: "core/deadline.ts",
    find: "confirmation.grantedTtlMs - marginMs",
    replace: "confirmation.grantedTtlMs - 0.9 * marginMs",
  },
  {
    name: "guard off by one",
    file: "core/token.ts",
    find: "offered >= highest;",
    replace: "offered >= highest - 1n;",
  },
  {
    name: "equal token refused",
    file: "core/token.ts",
    find: "offered >= highest;",
    replace: "offered > highest;",
  },
  {
    name: "guard does not remember",
    file: "guards/memory.ts",
    find: "highest.set(source.resource, admit(source, highest.get(source.resource)));",
    replace: "admit(source, highest.get(source.resource));",
  },
  {
    name: "doubt ignored by check",
    file: lease,
    find: "this.#parts.actsInDoubt ? this.#session.safeUntil : this.#session.settledUntil",
    replace: "this.#session.safeUntil",
  },
  {
    name: "timer instead of check",
    file: lease,
    find: "if (this.#acting && now < until) return this.token;",
    replace: "if (this.#acting && until > 0) return this.token;",
  },
  {
    name: "a late yes revives",
    file: machine,
    find: `      if (event.now >= state.safeUntil) return outOfTime();
      // The late answer`,
    replace: "      // The late answer",
    equivalent:
      "only where nobody looked between, and the store did renew: no other can hold, and nobody was told of a loss",
  },
  {
    name: "a late answer to an older renewal counts",
    file: machine,
    find: "if (event.sentAt <= state.sentAt) return { state, commands: [] };",
    replace: "",
    equivalent:
      "it only moves the deadline back: an answer older than a renewal that failed has run into its own limit before",
  },
  {
    name: "a refused session goes on",
    file: machine,
    find: `return end("expired", "the store says that the session is gone");`,
    replace: "return { state, commands: [] };",
  },
  {
    name: "a jump of the clock is ignored",
    file: machine,
    find: `case "clockJumped":
      return end(`,
    replace: `case "clockJumped":
      if (event.type === "clockJumped") return { state, commands: [] };
      return end(`,
  },
  {
    name: "a jump while opening is ignored",
    file: "holder/sessions.ts",
    find: "if (jumped) session.close(false);",
    replace: "",
  },
  {
    name: "renewals too seldom",
    file: machine,
    find: 'event.sentAt + timing.renewEveryMs - event.now) },\n      { do: "lookAt"',
    replace: 'event.sentAt + 3 * timing.renewEveryMs - event.now) },\n      { do: "lookAt"',
  },
  {
    name: "closing ends a session in use",
    file: machine,
    find: `return end("released", "the session was closed", !event.inUse);`,
    replace: `return end("released", "the session was closed", true);`,
  },
  {
    name: "release does not wait for work",
    file: "core/lease-machine.ts",
    find: "return state.work === 0\n        ? release()",
    replace: "return state.work >= 0\n        ? release()",
  },
  {
    name: "one of two works settles for both",
    file: "core/lease-machine.ts",
    find: "return state.work <= 1\n        ? release()",
    replace: "return state.work <= 2\n        ? release()",
  },
  {
    name: "draining takes new work",
    file: lease,
    find: `if (this.#state.kind === "draining" || this.#state.kind === "overrun") {`,
    replace: `if (this.#state.kind === "overrun") {`,
  },
  {
    name: "work starts without a check",
    file: lease,
    find: `    this.check();
    this.#feed({ type: "workStarted" });`,
    replace: `    this.#feed({ type: "workStarted" });`,
  },
  {
    name: "a grant of an ended session is taken",
    file: "holder/acquire.ts",
    find: "if (!session.look(clock.now())) return undefined;",
    replace: "",
  },
  {
    name: "attempts are not new",
    file: "holder/session.ts",
    find: "this.#attempts += 1;",
    replace: "this.#attempts = 1;",
  },
  {
    name: "an unknown attempt is not withdrawn",
    file: "holder/acquire.ts",
    find: `if (lease === undefined && atStore !== "nothing")`,
    replace: `if (lease === undefined && atStore === "queued")`,
  },
  {
    name: "close does not release",
    file: "holder/leases.ts",
    find: "await Promise.all(leases.map((lease) => lease.release({ drainMs })));",
    replace:
      "await Promise.all(leases.slice(leases.length).map((lease) => lease.release({ drainMs })));",
  },
  {
    name: "a leader is not told of its loss",
    file: "election/reign.ts",
    find: "this.#stopping.abort(signal.reason);",
    replace: "",
  },
  {
    name: "a late release frees a successor",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || entry.token !== request.token) {",
    replace: "if (!entry || held === undefined) {",
  },
  {
    name: "a release of an older token counts",
    file: memory,
    find: "if (!entry || held?.session.id !== request.sessionId || entry.token !== request.token) {",
    replace: "if (!entry || held?.session.id !== request.sessionId) {",
  },
  {
    name: "granted while held",
    file: memory,
    find: "if (held !== undefined || !this.#mayTake(entry, request.attempt)) {",
    replace: "if (!this.#mayTake(entry, request.attempt)) {",
  },
  {
    name: "the store lets go early",
    file: memory,
    find: "session.expiresAt = this.#clock.now() + session.ttlMs;",
    replace: "session.expiresAt = this.#clock.now() + session.ttlMs * 0.9;",
  },
  {
    name: "a token twice",
    file: memory,
    find: "    entry.token += 1n;",
    replace: "    if (entry.lastAttempt?.startsWith(session.id) !== true) entry.token += 1n;",
  },
  {
    name: "a repeated request is granted again",
    file: memory,
    find: "if (entry.lastAttempt === request.attempt) {",
    replace: "if (entry.lastAttempt === request.attempt && held !== undefined) {",
  },
  {
    name: "renewal revives an expired session",
    file: memory,
    find: `    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for`,
    replace: `    const session = this.#backend.sessions.get(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for`,
  },
  {
    name: "etcd: a release of an older token counts",
    file: "stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: "when: [isOurs],",
    store: "etcd",
  },
  {
    name: "etcd: a release frees a successor",
    file: "stores/etcd/endings.ts",
    find: "when: [isToken(holder, token), isOurs],",
    replace: 'when: [{ key: holder, target: "create", is: ">", than: 0n }],',
    store: "etcd",
  },
  {
    name: "etcd: granted while held",
    file: "stores/etcd/grants.ts",
    find: "const when = [isThere, isAbsent(holder), isUnmarked,",
    replace: "const when = [isThere, isUnmarked,",
    store: "etcd",
  },
  {
    name: "etcd: a withdrawal takes what is not its own",
    file: "stores/etcd/endings.ts",
    find: "if (record.sessionId !== sessionId || record.attempt !== attempt) return;",
    replace: "if (record.sessionId !== sessionId) return;",
    store: "etcd",
  },
  {
    name: "etcd: a second more than was granted",
    file: "stores/etcd/renewal.ts",
    find: "ttlMs: alive.ttl * 1_000, gone",
    replace: "ttlMs: (alive.ttl + 1) * 1_000, gone",
    store: "etcd",
  },
  {
    name: "the margin does not grow with a longer ttl",
    file: "core/deadline.ts",
    find: "return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);",
    replace: "return marginMs + 0 * clockErrorMs * grantedTtlMs * ttlMs;",
    store: "etcd",
  },
  {
    name: "a lease behind its end is handed out when guards are raised",
    file: "holder/raise.ts",
    find: "if (clock.now() >= lease.safeUntil) lease.check();",
    replace: "",
  },
  {
    name: "postgres: a session is said to be longer than it is",
    file: "stores/postgres/store.ts",
    find: "return { ttlMs };",
    replace: "return { ttlMs: ttlMs + limitMs };",
    store: "postgres",
  },
  {
    name: "postgres: the answers of a batch are mixed up",
    file: "stores/postgres/store.ts",
    find: `limitMs)).split(" ");`,
    replace: `limitMs)).split(" ").reverse();`,
    store: "postgres",
  },
  {
    name: "postgres: renewals forget what was withdrawn",
    file: "stores/postgres/store.ts",
    find: "[sessionId, JSON.stringify(withdrawn), lockLimit(limitMs)]",
    replace: "[sessionId, JSON.stringify(withdrawn.slice(1)), lockLimit(limitMs)]",
    store: "postgres",
  },
  // What the functions in the database say is SQL, which does not run here: these are planted in the model's copy of it.
  {
    name: "postgres model: a release of an older token counts",
    file: postgresModel,
    find: `if (lease?.session !== session || lease.token !== token || !isLive(db, session)) return "notHeld";`,
    replace: `if (lease?.session !== session || !isLive(db, session)) return "notHeld";`,
    store: "postgres",
  },
  {
    name: "postgres model: granted while held",
    file: postgresModel,
    find: "return lease.session === undefined && !lease.queued && lease.attempt !== attempt;",
    replace: "return !lease.queued && lease.attempt !== attempt;",
    store: "postgres",
  },
  {
    name: "postgres model: a withdrawal takes what is not its own",
    file: postgresModel,
    find: "const wasHeld = lease?.session === session && lease.attempt === attempt;",
    replace: "const wasHeld = lease?.session === session;",
    store: "postgres",
  },
  {
    name: "postgres model: renewal revives an expired session",
    file: postgresModel,
    find: `if (row === undefined || !rowIsLive(db, row)) return "gone";`,
    replace: `if (row === undefined || row.ended !== undefined) return "gone";`,
    store: "postgres",
  },
  {
    name: "redis: a release frees a successor",
    file: redisGrants,
    find: "if lease.session ~= session or lease.token ~= token or redis.call('EXISTS', KEYS[1]) == 0 then",
    replace: "if not lease.session then",
    store: "redis",
  },
  {
    name: "redis: a release of an older token counts",
    file: redisGrants,
    find: "if lease.session ~= session or lease.token ~= token or redis",
    replace: "if lease.session ~= session or redis",
    store: "redis",
  },
  {
    name: "redis: granted while held",
    file: redisGrants,
    find: "if text then state, last, from = string.match(text, '^([FL])(%d+)()') end",
    replace: "if text then state, last, from = string.match(text, '^([FLHK])(%d+)()') end",
    store: "redis",
  },
  {
    name: "redis: the head of the queue takes what is held",
    file: redisGrants,
    find: "if holder or (first and first ~= attempt",
    replace: "if (holder and not lease.queued) or (first and first ~= attempt",
    store: "redis",
  },
  {
    name: "redis: a dead session is granted leases",
    file: redisGrants,
    find: "if got[3] and not got[2] and counter",
    replace: "if not got[2] and counter",
    store: "redis",
  },
  {
    name: "redis: a withdrawal takes what is not its own",
    file: redisLibrary,
    find: "if lease.session == session and lease.attempt == attempt and lives(session) then",
    replace: "if lease.session == session and lives(session) then",
    store: "redis",
  },
  {
    name: "redis: a session ends before its ttl",
    file: redisScripts,
    find: "redis.call('PEXPIRE', KEYS[1], ttl + 1)",
    replace: "redis.call('PEXPIRE', KEYS[1], math.floor(ttl * 0.9))",
    store: "redis",
  },
  {
    name: "redis: the ttl is counted in seconds at the first opening",
    file: redisScripts,
    find: "'PX', ARGV[2] + 1)\nfor",
    replace: "'PX', math.floor(ARGV[2] / 1000) * 1000)\nfor",
    store: "redis",
  },
  {
    name: "redis: scripts are not sent again after a restart",
    file: "stores/redis/requests.ts",
    find: 'if (replyCode(error) !== "NOSCRIPT") failed(error);',
    replace: 'if (replyCode(error) !== "NOSUCH") failed(error);',
    store: "redis",
  },
  {
    name: "redis: a silent connection is kept",
    file: "stores/redis/requests.ts",
    find: "if (line.heard === heard) this.#silent(line);",
    replace: "if (line.heard < heard) this.#silent(line);",
    store: "redis",
  },
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
];
