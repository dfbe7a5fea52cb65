// Goal: no access to the real world is possible during isolation, and everything is restored
// exactly afterwards. Method: isolate, then try a table of accesses and every access point that the
// code lists.
import childProcess, { spawn as namedSpawn } from "node:child_process";
import nodeCrypto, { randomBytes as namedRandomBytes } from "node:crypto";
import dgram from "node:dgram";
import dns from "node:dns";
import fs, { writeFileSync as namedWriteFileSync } from "node:fs";
import http from "node:http";
import http2 from "node:http2";
import net from "node:net";
import os from "node:os";
import { join } from "node:path";
import perfHooks from "node:perf_hooks";
import timers, { setTimeout as namedSetTimeout } from "node:timers";
import timersPromises, { setTimeout as namedWait } from "node:timers/promises";
import tls from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import workerThreads from "node:worker_threads";
import { afterEach, describe, expect, test } from "vitest";
import { isolate } from "../host/isolation.ts";
import { listAccessPoints } from "../host/real-world-access.ts";

const here = fileURLToPath(import.meta.url);
/** A file that is written only if isolation fails. */
const never = join(os.tmpdir(), "tenure-never-written");
const nothing = (): void => undefined;
const format = new Intl.DateTimeFormat("en");

const ACCESSES: Record<string, () => unknown> = {
  "Date.now": () => Date.now(),
  "new Date": () => new Date(),
  Date: () => (Date as unknown as () => string)(),
  "new date.constructor": () => new (new Date(0).constructor as DateConstructor)(),
  "performance.now": () => performance.now(),
  "performance.mark": () => performance.mark("x"),
  "performance.measure": () => performance.measure("x"),
  "performance.timeOrigin": () => performance.timeOrigin,
  "performance.toJSON": () => performance.toJSON(),
  "performance.nodeTiming": () => performance.nodeTiming.duration,
  PerformanceMark: () => Reflect.construct(PerformanceMark, ["x"]),
  "perf_hooks.performance.now": () => perfHooks.performance.now(),
  "perf_hooks.PerformanceMark": () => Reflect.construct(perfHooks.PerformanceMark, ["x"]),
  "event.timeStamp": () => new Event("x").timeStamp,
  "Intl.DateTimeFormat format": () => format.format(),
  "Intl.DateTimeFormat formatToParts": () => format.formatToParts(),
  "process.hrtime": () => process.hrtime(),
  "process.hrtime.bigint": () => process.hrtime.bigint(),
  "process.uptime": () => process.uptime(),
  "process.cpuUsage": () => process.cpuUsage(),
  "process.memoryUsage": () => process.memoryUsage(),
  "process.memoryUsage.rss": () => process.memoryUsage.rss(),
  "os.uptime": () => os.uptime(),
  "os.loadavg": () => os.loadavg(),
  "Math.random": () => Math.random(),
  "crypto.randomUUID": () => crypto.randomUUID(),
  "crypto.getRandomValues": () => crypto.getRandomValues(new Uint8Array(1)),
  "crypto.subtle.generateKey": () =>
    crypto.subtle.generateKey({ name: "AES-GCM", length: 128 }, true, ["encrypt"]),
  "webcrypto.randomUUID": () => nodeCrypto.webcrypto.randomUUID(),
  "node:crypto randomBytes": () => nodeCrypto.randomBytes(1),
  "node:crypto randomBytes by name": () => namedRandomBytes(1),
  "node:crypto pseudoRandomBytes": () => nodeCrypto.pseudoRandomBytes(1),
  "node:crypto randomInt": () => nodeCrypto.randomInt(5),
  "node:crypto randomUUID": () => nodeCrypto.randomUUID(),
  "node:crypto randomFillSync": () => nodeCrypto.randomFillSync(new Uint8Array(1)),
  "node:crypto getRandomValues": () => nodeCrypto.getRandomValues(new Uint8Array(1)),
  "node:crypto generateKeyPairSync": () => nodeCrypto.generateKeyPairSync("ed25519"),
  setTimeout: () => setTimeout(nothing, 1),
  setInterval: () => setInterval(nothing, 1),
  setImmediate: () => setImmediate(nothing),
  "node:timers setTimeout": () => timers.setTimeout(nothing, 1),
  "node:timers setTimeout by name": () => namedSetTimeout(nothing, 1),
  "node:timers setInterval": () => timers.setInterval(nothing, 1),
  "node:timers setImmediate": () => timers.setImmediate(nothing),
  "node:timers/promises setTimeout": () => timersPromises.setTimeout(1),
  "node:timers/promises setTimeout by name": () => namedWait(1),
  "node:timers/promises setImmediate": () => timersPromises.setImmediate(),
  "node:timers/promises setInterval": () => timersPromises.setInterval(1),
  "node:timers/promises scheduler": () => timersPromises.scheduler.wait(1),
  "setTimeout as a promise": () => promisify(setTimeout)(1),
  "AbortSignal.timeout": () => AbortSignal.timeout(1),
  "Atomics.wait": () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1),
  MessageChannel: () => new MessageChannel(),
  "worker_threads Worker": () => new workerThreads.Worker("", { eval: true }),
  "worker_threads MessageChannel": () => new workerThreads.MessageChannel(),
  fetch: () => fetch("http://127.0.0.1:1"),
  "net connect": () => net.connect(1),
  "socket.connect": () => new net.Socket().connect(1),
  "server.listen": () => net.createServer().listen(0),
  "http get": () => http.get("http://127.0.0.1:1"),
  "http2 connect": () => http2.connect("http://127.0.0.1:1"),
  "tls connect": () => tls.connect(1),
  "dgram createSocket": () => dgram.createSocket("udp4"),
  "dns lookup": () => dns.lookup("localhost", nothing),
  "dns resolve4": () => dns.resolve4("localhost", nothing),
  "dns Resolver": () => new dns.Resolver(),
  "dns.promises lookup": () => dns.promises.lookup("localhost"),
  "child_process spawn": () => childProcess.spawn("true"),
  "child_process spawn by name": () => namedSpawn("true"),
  "child_process exec": () => childProcess.exec("true"),
  "child_process execFileSync": () => childProcess.execFileSync("true"),
  "child_process fork": () => childProcess.fork(here),
  "process.kill": () => process.kill(process.pid, 0),
  "fs writeFile": () => fs.writeFile(never, "", nothing),
  "fs writeFileSync": () => fs.writeFileSync(never, ""),
  "fs writeFileSync by name": () => namedWriteFileSync(never, ""),
  "fs mkdirSync": () => fs.mkdirSync(never),
  "fs rmSync": () => fs.rmSync(never, { force: true }),
  "fs renameSync": () => fs.renameSync(never, never),
  "fs openSync for writing": () => fs.openSync(never, "a"),
  "fs createWriteStream": () => fs.createWriteStream(never),
  "fs readFile": () => fs.readFile(here, nothing),
  "fs watch": () => fs.watch(here),
  "fs.promises writeFile": () => fs.promises.writeFile(never, ""),
  "fs.promises readFile": () => fs.promises.readFile(here),
};

let endIsolation: (() => void) | undefined;

afterEach(() => {
  endIsolation?.();
  endIsolation = undefined;
});

describe("during isolation", () => {
  test.each(Object.entries(ACCESSES))("%s is rejected", async (_, use) => {
    endIsolation = isolate();
    let seen: unknown;
    try {
      seen = use();
    } catch (error) {
      seen = error;
    }
    // A function that returns a promise may reject it instead of throwing.
    const message = await Promise.resolve(seen).then(String, String);
    expect(message).toContain("inside the simulated world");
  });

  test("every access point throws an error with its name and the caller", () => {
    const all = listAccessPoints().filter(({ isBlocked }) => isBlocked === undefined);
    expect(all.length).toBeGreaterThan(150);
    endIsolation = isolate();
    for (const { holder, name } of all) {
      const use = (): unknown => {
        const { value, get } = Object.getOwnPropertyDescriptor(holder, name) ?? {};
        return Reflect.apply(value ?? get, holder, []);
      };
      expect(use, name).toThrow(`${name} was used inside the simulated world`);
      expect(catchError(use).stack, name).toContain("sim/test/isolation.test.ts");
    }
  });

  test("functions without time, randomness and I/O work", async () => {
    const { length } = fs.readFileSync(here);
    endIsolation = isolate();
    const date = new Date(86_400_000);
    expect(date.toISOString()).toBe("1970-01-02T00:00:00.000Z");
    expect(date).toBeInstanceOf(Date);
    expect(date.constructor).toBe(Date);
    expect(Date.UTC(1970, 0, 2)).toBe(86_400_000);
    expect(fs.readFileSync(here)).toHaveLength(length);
    fs.closeSync(fs.openSync(here, "r"));
    expect(nodeCrypto.createHash("sha1").update("x").digest("hex")).toMatch(/^11f6ad8e/);
    await new Promise<void>((resolve) => process.nextTick(() => queueMicrotask(resolve)));
  });

  test("ending a nested isolation does not end the outer one", () => {
    endIsolation = isolate();
    isolate()();
    expect(() => Date.now()).toThrow("inside the simulated world");
    endIsolation();
    endIsolation = undefined;
    expect(Date.now()).toBeGreaterThan(0);
  });
});

describe("after isolation", () => {
  test("all properties are restored", () => {
    const before = state();
    isolate()();
    expect(state()).toEqual(before);
    expect(namedSetTimeout).toBe(timers.setTimeout);
    expect(namedRandomBytes(4)).toHaveLength(4);
    expect(new Date().getFullYear()).toBeGreaterThan(2_000);
    const limit = Error.stackTraceLimit;
    isolate()();
    expect(Error.stackTraceLimit).toBe(limit);
  });

  test("references that were stored during isolation work", () => {
    endIsolation = isolate();
    const { randomBytes } = nodeCrypto;
    const Kept = Date;
    endIsolation();
    endIsolation = undefined;
    expect(randomBytes(4)).toHaveLength(4);
    expect(new Kept().getFullYear()).toBeGreaterThan(2_000);
  });
});

function state(): unknown[] {
  return listAccessPoints().map(({ where, holder, name }) => {
    const { value, get, set, ...flags } = Object.getOwnPropertyDescriptor(holder, name) ?? {};
    return [where, name, flags, identity(value), identity(get), identity(set)];
  });
}

const identities = new Map<unknown, number>();

/** Distinguishes functions that are equal in every other way. */
function identity(value: unknown): number {
  const known = identities.get(value) ?? identities.size;
  identities.set(value, known);
  return known;
}

function catchError(use: () => unknown): Error {
  try {
    use();
  } catch (error) {
    return error as Error;
  }
  throw new Error("The access was not rejected.");
}
