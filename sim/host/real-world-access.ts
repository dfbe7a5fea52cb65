// Lists the known ways to reach the real world from a simulation: clocks, randomness, timers,
// sockets, disks and processes. isolation.ts blocks them. A reference that was stored in a variable
// before cannot be blocked; the linter and test/repo/tidy.test.ts search for those.

import childProcess from "node:child_process";
import nodeCrypto from "node:crypto";
import dgram from "node:dgram";
import dns from "node:dns";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import perfHooks from "node:perf_hooks";
import timers from "node:timers";
import workerThreads from "node:worker_threads";

export interface AccessPoint {
  /** The name of `holder` in the error message. */
  readonly where: string;
  readonly holder: object;
  readonly name: string;
  /** Which calls are blocked. @default all */
  readonly isBlocked?: ((args: readonly unknown[], isNew: boolean) => boolean) | undefined;
}

/** The access points that exist in this version of Node. A getter is blocked for reading. */
export function listAccessPoints(): readonly AccessPoint[] {
  const all = [
    ...listClocks(),
    ...listRandomness(),
    ...listTimers(),
    ...listNetwork(),
    ...listDisk(),
    ...listProcesses(),
  ];
  return all.filter(({ holder, name }) => Object.hasOwn(holder, name));
}

function listClocks(): AccessPoint[] {
  // `new Date(0)` is arithmetic; `new Date()` and `Date()` read the clock.
  const readsClock: AccessPoint["isBlocked"] = (args, isNew) => !isNew || args.length === 0;
  return [
    { where: "Date", holder: globalThis, name: "Date", isBlocked: readsClock },
    { where: "Date", holder: Date.prototype, name: "constructor", isBlocked: readsClock },
    ...all("Date", Date, ["now"]),
    ...all("performance", getPrototype(performance), ["now", "mark", "measure", "timeOrigin"]),
    ...all("performance", getPrototype(performance), [
      "toJSON",
      "timerify",
      "eventLoopUtilization",
    ]),
    ...all("performance.nodeTiming", performance.nodeTiming, ["duration", "idleTime"]),
    ...all("global", globalThis, ["PerformanceMark"]),
    ...all("perf_hooks", perfHooks, ["PerformanceMark", "monitorEventLoopDelay"]),
    ...all("event", Event.prototype, ["timeStamp"]),
    // Without an argument these use the current date. With one, they use the machine's time zone.
    ...all("Intl.DateTimeFormat", Intl.DateTimeFormat.prototype, ["format", "formatToParts"]),
    ...all("process.hrtime", process.hrtime, ["bigint"]),
    ...all("process.memoryUsage", process.memoryUsage, ["rss"]),
    ...all("process", process, ["hrtime", "uptime", "cpuUsage", "resourceUsage", "memoryUsage"]),
    ...all("process", process, ["availableMemory"]),
    ...all("os", os, ["uptime", "loadavg", "freemem", "cpus"]),
  ];
}

function listRandomness(): AccessPoint[] {
  const names = findFunctions(nodeCrypto, /^(random|pseudoRandom|prng|rng|generate)/);
  return [
    ...all("Math", Math, ["random"]),
    // node:crypto exports the same object as `webcrypto`.
    ...all("crypto", getPrototype(crypto), ["randomUUID", "getRandomValues"]),
    ...all("crypto.subtle", getPrototype(crypto.subtle), ["generateKey"]),
    ...all("crypto", nodeCrypto, names),
  ];
}

/** After an uncaught exception, Node itself schedules an empty function for the next turn. */
const EMPTY = /^(function \w*\(\)|\(\) =>) \{\s*\}$/;

function listTimers(): AccessPoint[] {
  const names = ["setTimeout", "setInterval"];
  const hasEffect: AccessPoint["isBlocked"] = ([callback]) => !EMPTY.test(String(callback));
  return [
    ...all("global", globalThis, names),
    { where: "global", holder: globalThis, name: "setImmediate", isBlocked: hasEffect },
    ...all("timers", timers, names),
    { where: "timers", holder: timers, name: "setImmediate", isBlocked: hasEffect },
    ...all("timers/promises", timers.promises, [...names, "setImmediate"]),
    ...all("scheduler", getPrototype(timers.promises.scheduler), ["wait", "yield"]),
    ...all("AbortSignal", AbortSignal, ["timeout"]),
    ...all("Atomics", Atomics, ["wait", "waitAsync"]),
    ...all("global", globalThis, ["MessageChannel", "BroadcastChannel"]),
    ...all("worker_threads", workerThreads, ["MessageChannel", "BroadcastChannel", "Worker"]),
  ];
}

function listNetwork(): AccessPoint[] {
  const queries = /^(lookup|resolve|reverse|Resolver)/;
  return [
    ...all("global", globalThis, ["fetch", "WebSocket", "EventSource"]),
    // http, http2 and tls connect through this, too.
    ...all("net.Socket", net.Socket.prototype, ["connect"]),
    ...all("net.Server", net.Server.prototype, ["listen"]),
    ...all("dgram", dgram, ["createSocket"]),
    ...all("dgram.Socket", dgram.Socket.prototype, ["bind", "connect", "send"]),
    ...all("dns", dns, findFunctions(dns, queries)),
    ...all("dns.promises", dns.promises, findFunctions(dns.promises, queries)),
  ];
}

const WRITE_FUNCTIONS =
  /^(append|copy|cp|createWrite|f?truncate|[fl]?ch(mod|own)|[fl]?utimes|link|mkd|rename|rm|symlink|unlink|watch|write)/;

/** Synchronous reads stay allowed, because stack traces read source maps. */
function listDisk(): AccessPoint[] {
  // Functions with a synchronous variant are asynchronous, so their timing depends on the disk.
  const asynchronous = findFunctions(fs, /./).filter((name) => `${name}Sync` in fs);
  const writing = findFunctions(fs, WRITE_FUNCTIONS).filter((name) => !asynchronous.includes(name));
  // Writes to an open descriptor stay allowed, for standard output.
  const synchronous = writing.filter((name) => !/^writev?Sync$/.test(name));
  const opensForWriting: AccessPoint["isBlocked"] = ([, flags = "r"]) =>
    flags !== "r" && flags !== 0;
  return [
    ...all("fs", fs, [...asynchronous, ...synchronous, "createReadStream"]),
    ...all("fs.realpath", fs.realpath, ["native"]),
    { where: "fs", holder: fs, name: "openSync", isBlocked: opensForWriting },
    ...all("fs.promises", fs.promises, findFunctions(fs.promises, /./)),
  ];
}

function listProcesses(): AccessPoint[] {
  const starting = findFunctions(childProcess, /^(exec|fork|spawn)/);
  return [
    ...all("child_process", childProcess, starting),
    ...all("child_process", childProcess.ChildProcess.prototype, ["spawn"]),
    ...all("process", process, ["kill"]),
  ];
}

function all(where: string, holder: object, names: readonly string[]): AccessPoint[] {
  return names.map((name) => ({ where, holder, name }));
}

function getPrototype(object: object): object {
  return Object.getPrototypeOf(object) as object;
}

/** Finds the functions of a module whose name matches. */
function findFunctions(holder: object, pattern: RegExp): string[] {
  const all = Object.getOwnPropertyDescriptors(holder) as Record<string, PropertyDescriptor>;
  return Object.keys(all).filter(
    (name) => pattern.test(name) && all[name]?.configurable && isCallable(all[name]),
  );
}

function isCallable({ value, get }: PropertyDescriptor): boolean {
  return typeof value === "function" || get !== undefined;
}
