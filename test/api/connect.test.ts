// Goal: connect() opens the store that valid input names. Invalid input is rejected with a message
// that says what to change, and changes nothing. Method: real memory and SQLite stores in a temp
// folder; contents are compared before and after each rejection.
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test, vi } from "vitest";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { connect } from "../../src/connect.ts";
import type { AcquireOptions } from "../../src/holder/options.ts";
import { MemoryBackend, memoryStore } from "../../src/stores/memory/index.ts";
import type { Tenure } from "../../src/tenure.ts";

const folder = mkdtempSync(join(tmpdir(), "tenure-connect-"));
const open = new Set<Tenure>();

afterEach(async () => {
  for (const tenure of open) await tenure.close();
  open.clear();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let files = 0;
function freshFile(): string {
  files += 1;
  return join(folder, `store-${files}.db`);
}

async function connected(...args: Parameters<typeof connect>): Promise<Tenure> {
  const tenure = await connect(...args);
  open.add(tenure);
  return tenure;
}

/** The error of a call that must fail. */
async function catchError(call: Promise<unknown>): Promise<{ code?: string; message: string }> {
  const answer = await call.then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(answer).toBeInstanceOf(Error);
  return answer as Error;
}

describe("an invalid URL", () => {
  test.each([
    [
      "an unknown scheme",
      "mongodb://localhost",
      /no store for this scheme.* Known are .*sqlite:.* and memory:/,
    ],
    ["a misspelt scheme", "sqllite:./x.db", /no store for this scheme.* Check the spelling/],
    ["no scheme", "./tenure.db", /Expected a store URL such as "sqlite:.\/tenure.db"/],
    ["an empty string", "", /Expected a store URL/],
    ["nothing", undefined, /Expected a store URL/],
    ["a number", 7, /Expected a store URL/],
    ["sqlite: without a file", "sqlite:", /needs a file, e.g. "sqlite:.\/tenure.db"/],
    ["sqlite: with a line break at the end", "sqlite:./x.db\n", /space or a line break/],
    ["SQLite's own :memory:", "sqlite::memory:", /use "memory:"/],
    [
      "an unknown setting",
      "sqlite:./x.db?mode=ro",
      /unknown setting "mode"; known are library, connect-ms and allow-network-file-system/,
    ],
    ["zookeeper: without hosts", "zookeeper://", /host 1 is not a host name/],
  ])("%s is rejected, and the message says what to write instead", async (_, url, message) => {
    const error = await catchError(connect(url as string));
    expect(error).toMatchObject({ code: "INVALID_ARGUMENT", retryable: false });
    expect(error.message).toMatch(message);
    expect(existsSync("x.db")).toBe(false);
  });
});

const badNames: [string, unknown, RegExp][] = [
  ["an empty name", "", /empty string. Name what is protected/],
  ["a name of 513 bytes", "x".repeat(513), /has 513 bytes; at most 512 are allowed. Shorten/],
  ["a name of 514 bytes in 257 letters", "é".repeat(257), /has 514 bytes/],
  ["a NUL character", "a\0b", /NUL character. Remove it/],
  ["half a surrogate pair", "a\ud83d", /half of a surrogate pair.* Check where it was cut/],
  ["a name that is not a string", 7, /Expected a resource name \(a string\), got number/],
];

const badOptions: [string, AcquireOptions, string, RegExp][] = [
  [
    "a ttl of 0",
    { ttlMs: 0 },
    "INVALID_ARGUMENT",
    /`ttlMs` must be .* above 0 and at most 86400000/,
  ],
  ["a negative ttl", { ttlMs: -5 }, "INVALID_ARGUMENT", /above 0/],
  ["a ttl that is not a number", { ttlMs: Number.NaN }, "INVALID_ARGUMENT", /got NaN/],
  ["a ttl above 24 h", { ttlMs: 86_400_001 }, "INVALID_ARGUMENT", /\(24 h\), got 86400001/],
  ["an infinite ttl", { ttlMs: Number.POSITIVE_INFINITY }, "INVALID_ARGUMENT", /got Infinity/],
  ["a ttl as text", { ttlMs: "10s" as unknown as number }, "INVALID_ARGUMENT", /got 10s/],
  [
    "a short ttl without bounds",
    { ttlMs: 500 },
    "TIMING",
    /give clockErrorMs and roundTripMs yourself/,
  ],
  [
    "a margin that is too small",
    { marginMs: 1 },
    "TIMING",
    /safety inequality .* The smallest change that fixes it: marginMs/,
  ],
  [
    "renewals that are too rare",
    { renewEveryMs: 9_000 },
    "TIMING",
    /availability inequality .* renewEveryMs/,
  ],
  [
    "an unknown whileInDoubt",
    { whileInDoubt: "go" as "act" },
    "INVALID_ARGUMENT",
    /"stop" or "act", got go/,
  ],
  [
    "a value with a bigint",
    { value: { token: 1n } },
    "INVALID_ARGUMENT",
    /plain JSON \(no cycles, no bigint\)/,
  ],
  [
    "a value that is too large",
    { value: "x".repeat(5_000) },
    "INVALID_ARGUMENT",
    /5002 bytes as JSON; at most 4096/,
  ],
];

const badWaits: [string, AcquireOptions, string, RegExp][] = [
  [
    "a waitMs below zero",
    { waitMs: -1 },
    "INVALID_ARGUMENT",
    /`waitMs` must be .* at least 0 .* got -1/,
  ],
  ["a waitMs that is not a number", { waitMs: Number.NaN }, "INVALID_ARGUMENT", /got NaN/],
  ["a waitMs as text", { waitMs: "5s" as unknown as number }, "INVALID_ARGUMENT", /got 5s/],
];

describe.each(["memory:", "sqlite:"])("invalid input to %s", (scheme) => {
  const newUrl = (): string => (scheme === "memory:" ? scheme : `sqlite:${freshFile()}`);

  /** The error of a call that must fail. The call must not affect or create any lease. */
  async function catchAndCheck(
    call: (tenure: Tenure) => Promise<unknown>,
  ): ReturnType<typeof catchError> {
    const tenure = await connected(newUrl());
    const lease = await tenure.acquire("kept");
    const error = await catchError(call(tenure));
    expect(lease.check()).toBe(lease.token);
    const listed: string[] = [];
    for await (const view of tenure.list()) listed.push(view.resource);
    expect(listed).toEqual(["kept"]);
    return error;
  }

  test.each(badNames)("%s is rejected by every call", async (_, name, message) => {
    const resource = name as string;
    const calls = [
      (tenure: Tenure) => tenure.acquire(resource),
      (tenure: Tenure) => tenure.tryAcquire(resource),
      (tenure: Tenure) => tenure.withLease(resource, () => 1),
      (tenure: Tenure) => tenure.read(resource),
      (tenure: Tenure) => tenure.revoke(resource),
    ];
    for (const call of calls) {
      const error = await catchAndCheck(call);
      expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
      expect(error.message).toMatch(message);
    }
  });

  test.each([...badOptions, ...badWaits])(
    "%s is rejected by acquire()",
    async (_, options, code, message) => {
      const error = await catchAndCheck((tenure) => tenure.acquire("settlement", options));
      expect(error).toMatchObject({ code });
      expect(error.message).toMatch(message);
    },
  );
});

describe("invalid defaults", () => {
  const timings = badOptions.filter(
    ([, options]) => !("whileInDoubt" in options || "value" in options),
  );

  test.each(timings)(
    "%s is rejected by connect(), which leaves no store open",
    async (_, defaults, code, message) => {
      let [opened, closed] = [0, 0];
      const counting: Parameters<typeof connect>[0] = async (parts) => {
        const store = await memoryStore()(parts);
        opened += 1;
        return Object.assign(Object.create(store) as typeof store, {
          close: async () => {
            closed += 1;
          },
        });
      };
      const error = await catchError(connect(counting, { defaults }));
      expect(error).toMatchObject({ code });
      expect(error.message).toMatch(message);
      expect(closed).toBe(opened);
    },
  );

  test.each([
    ["an invalid ttl", { defaults: { ttlMs: 0 } }],
    ["an invalid holder id", { holderId: "" }],
  ])("%s creates no file", async (_, options) => {
    const file = freshFile();
    expect(await catchError(connect(`sqlite:${file}`, options))).toMatchObject({
      code: "INVALID_ARGUMENT",
    });
    expect(existsSync(file)).toBe(false);
  });

  test.each([
    ["empty", "", /must be a string that is not empty/],
    ["with NUL", "a\0", /no NUL character/],
    ["too long", "x".repeat(257), /at most 256 bytes/],
  ])("a holder id that is %s is rejected", async (_, holderId, message) => {
    expect((await catchError(connect("memory:", { holderId }))).message).toMatch(message);
  });
});

describe("an unusable file", () => {
  async function makeSqlite(file: string, sql: string): Promise<void> {
    const connection = (await loadDriver()).open(file);
    connection.exec(sql);
    connection.close();
  }

  const bad: [string, (file: string) => Promise<void> | void, RegExp][] = [
    [
      "a file that is not a SQLite database",
      (file) => writeFileSync(file, "not a database, ".repeat(600)),
      /.+/,
    ],
    [
      "another program's SQLite file",
      (file) =>
        makeSqlite(file, "CREATE TABLE invoice (id INTEGER); INSERT INTO invoice VALUES (1)"),
      /SQLite file of another program. It was not touched. Name another file/,
    ],
    [
      "a file of a newer version",
      (file) => makeSqlite(file, "PRAGMA application_id = 0x54454e55; PRAGMA user_version = 99"),
      /newer Tenure \(schema 99.*It was not changed. Upgrade Tenure here too/,
    ],
    [
      "an empty file with the application id of another program",
      (file) => makeSqlite(file, "PRAGMA application_id = 77"),
      /another program/,
    ],
  ];

  test.each(bad)("%s is rejected with its path, and is not changed", async (_, make, message) => {
    const file = freshFile();
    await make(file);
    const before = { bytes: readFileSync(file), folder: readdirSync(folder) };
    const error = await catchError(connect(`sqlite:${file}`));
    expect(error).toMatchObject({ code: "STORE_UNUSABLE", retryable: false });
    expect(error.message).toMatch(message);
    expect(error.message).toContain(file);
    expect({ bytes: readFileSync(file), folder: readdirSync(folder) }).toEqual(before);
  });

  test("a damaged file of Tenure is rejected, and is not changed", async () => {
    const file = freshFile();
    const tenure = await connected(`sqlite:${file}`);
    await tenure.acquire("settlement");
    await tenure.close();
    const bytes = readFileSync(file);
    bytes.fill(0xaa, 100, bytes.length);
    writeFileSync(file, bytes);
    const error = await catchError(connect(`sqlite:${file}`));
    expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
    expect(error.message).toContain(file);
    expect(readFileSync(file).equals(bytes)).toBe(true);
  });

  test("a folder, and a file in a missing folder, are rejected, and the message says what to do", async () => {
    const inner = join(folder, "folder");
    mkdirSync(inner);
    expect((await catchError(connect(`sqlite:${inner}`))).message).toMatch(
      /is a folder, not a plain file/,
    );
    const missing = join(folder, "missing", "tenure.db");
    const error = await catchError(connect(`sqlite:${missing}`));
    expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
    expect(error.message).toMatch(/does not exist. Create it/);
    expect(existsSync(join(folder, "missing"))).toBe(false);
  });

  test("a missing client library is reported with the command that installs it, and no file is created", async () => {
    const file = freshFile();
    vi.resetModules();
    const absent = (): never => {
      throw new Error("Cannot find package (by the test)");
    };
    vi.doMock("better-sqlite3", absent);
    vi.doMock("node:sqlite", absent);
    try {
      const fresh = await import("../../src/connect.ts");
      const error = await catchError(fresh.connect(`sqlite:${file}`));
      expect(error).toMatchObject({ code: "STORE_UNUSABLE" });
      expect(error.message).toMatch(
        /Run `npm install better-sqlite3@12`, or use Node 22.13 or newer/,
      );
      expect(existsSync(file)).toBe(false);
    } finally {
      vi.doUnmock("better-sqlite3");
      vi.doUnmock("node:sqlite");
      vi.resetModules();
    }
  });
});

describe("valid input", () => {
  test("memory:name is one store for the whole process, memory: is a new one each time", async () => {
    const [one, two] = [await connected("memory:shared"), await connected("memory:shared")];
    const held = await one.acquire("settlement");
    expect(await two.tryAcquire("settlement")).toBeUndefined();
    const alone = await connected("memory:");
    expect(await alone.tryAcquire("settlement")).toBeDefined();
    expect(await (await connected("memory:other")).tryAcquire("settlement")).toBeDefined();
    await held.release();
    expect((await two.tryAcquire("settlement"))?.token).toBe(held.token + 1n);
  });

  test("a named memory store outlives the connection that created it", async () => {
    const one = await connected("memory:outlives");
    const { token } = await one.acquire("settlement");
    await one.close();
    const next = await (await connected("memory:outlives")).acquire("settlement");
    expect(next.token).toBe(token + 1n);
  });

  test("two connections to one file compete for its leases, and schemes are case-insensitive", async () => {
    const file = freshFile();
    const [one, two] = [await connected(`sqlite:${file}`), await connected(`SQLITE://${file}`)];
    const lease = await one.acquire("settlement");
    expect(await two.tryAcquire("settlement")).toBeUndefined();
    expect((await two.read("settlement")).holder?.holderId).toBe(one.holderId);
    expect(await lease.release()).toBe("released");
    expect((await two.tryAcquire("settlement"))?.token).toBeGreaterThan(lease.token);
  });

  test("a store function, a holder id and defaults are applied", async () => {
    const backend = new MemoryBackend();
    const defaults = { ttlMs: 60_000, value: "here", waitMs: 0 };
    const tenure = await connected(memoryStore(backend), { holderId: "web-1", defaults });
    await tenure.acquire("settlement");
    const { holder } = await tenure.read("settlement");
    expect(holder).toMatchObject({ holderId: "web-1", value: "here" });
    expect(holder?.expiresInMs).toBeGreaterThan(50_000);
    const error = await catchError(tenure.acquire("settlement"));
    expect(error).toMatchObject({ code: "ACQUIRE_TIMEOUT" });
  });

  test.each([
    [undefined, false],
    [false, false],
    [true, true],
  ])(
    "with keepProcessAlive %s, held leases keep the process alive: %s",
    async (keepProcessAlive, kept) => {
      const spy = vi.spyOn(globalThis, "setTimeout");
      try {
        const defaults = { ttlMs: 60_000 };
        const tenure = await connected("memory:", { keepProcessAlive, defaults });
        await tenure.acquire("settlement");
        // The two timers of the session: the renewal after 20 s and the check of the deadline.
        const long = spy.mock.calls.flatMap(([, delayMs], call) => {
          const result = spy.mock.results[call];
          return (delayMs ?? 0) > 15_000 && result?.type === "return" ? [result.value] : [];
        });
        expect(long.map((timer) => timer.hasRef())).toEqual([kept, kept]);
      } finally {
        spy.mockRestore();
      }
    },
  );
});
