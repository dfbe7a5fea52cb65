// Every way from a simulated world into the real one that is known: clocks, chance, timers, sockets, disks, processes. What
// somebody kept in a variable before the world was closed is out of reach; the linter and test/repo/tidy.test.ts look for those.

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
  /** What it is called in the message. */
  readonly where: string;
  readonly holder: object;
  readonly name: string;
  /** Of some only a part is closed; undefined: all of it. */
  readonly isRefused?: ((words: readonly unknown[], isNew: boolean) => boolean) | undefined;
}

/** What this version of Node has of it. A getter is closed for reading. */
export function listAccessPoints(): readonly AccessPoint[] {
  return [...clocks(), ...chance(), ...waits(), ...network(), ...disk(), ...processes()].filter(
    ({ holder, name }) => Object.hasOwn(holder, name),
  );
}

function clocks(): AccessPoint[] {
  // `new Date(0)` is arithmetic; `new Date()` and `Date()` look at the clock.
  const isClock: AccessPoint["isRefused"] = (words, isNew) => !isNew || words.length === 0;
  return [
    { where: "Date", holder: globalThis, name: "Date", isRefused: isClock },
    { where: "Date", holder: Date.prototype, name: "constructor", isRefused: isClock },
    ...all("Date", Date, ["now"]),
    ...all("performance", protoOf(performance), ["now", "mark", "measure", "timeOrigin"]),
    ...all("performance", protoOf(performance), ["toJSON", "timerify", "eventLoopUtilization"]),
    ...all("performance.nodeTiming", performance.nodeTiming, ["duration", "idleTime"]),
    ...all("global", globalThis, ["PerformanceMark"]),
    ...all("perf_hooks", perfHooks, ["PerformanceMark", "monitorEventLoopDelay"]),
    ...all("event", Event.prototype, ["timeStamp"]),
    // Without a date they take the one of today; with one, the language and the time zone of this machine.
    ...all("Intl.DateTimeFormat", Intl.DateTimeFormat.prototype, ["format", "formatToParts"]),
    ...all("process.hrtime", process.hrtime, ["bigint"]),
    ...all("process.memoryUsage", process.memoryUsage, ["rss"]),
    ...all("process", process, ["hrtime", "uptime", "cpuUsage", "resourceUsage", "memoryUsage"]),
    ...all("process", process, ["availableMemory"]),
    ...all("os", os, ["uptime", "loadavg", "freemem", "cpus"]),
  ];
}

function chance(): AccessPoint[] {
  const drawn = matching(nodeCrypto, /^(random|pseudoRandom|prng|rng|generate)/);
  return [
    ...all("Math", Math, ["random"]),
    // Also what node:crypto calls webcrypto and getRandomValues.
    ...all("crypto", protoOf(crypto), ["randomUUID", "getRandomValues"]),
    ...all("crypto.subtle", protoOf(crypto.subtle), ["generateKey"]),
    ...all("crypto", nodeCrypto, drawn),
  ];
}

/** Node itself waits for the next turn with an empty function, after an exception that was caught in the last resort. */
const EMPTY = /^(function \w*\(\)|\(\) =>) \{\s*\}$/;

function waits(): AccessPoint[] {
  const names = ["setTimeout", "setInterval"];
  const isWait: AccessPoint["isRefused"] = ([callback]) => !EMPTY.test(String(callback));
  return [
    ...all("global", globalThis, names),
    { where: "global", holder: globalThis, name: "setImmediate", isRefused: isWait },
    ...all("timers", timers, names),
    { where: "timers", holder: timers, name: "setImmediate", isRefused: isWait },
    ...all("timers/promises", timers.promises, [...names, "setImmediate"]),
    ...all("scheduler", protoOf(timers.promises.scheduler), ["wait", "yield"]),
    ...all("AbortSignal", AbortSignal, ["timeout"]),
    ...all("Atomics", Atomics, ["wait", "waitAsync"]),
    ...all("global", globalThis, ["MessageChannel", "BroadcastChannel"]),
    ...all("worker_threads", workerThreads, ["MessageChannel", "BroadcastChannel", "Worker"]),
  ];
}

function network(): AccessPoint[] {
  const asked = /^(lookup|resolve|reverse|Resolver)/;
  return [
    ...all("global", globalThis, ["fetch", "WebSocket", "EventSource"]),
    // What http, http2 and tls connect with, too.
    ...all("net.Socket", net.Socket.prototype, ["connect"]),
    ...all("net.Server", net.Server.prototype, ["listen"]),
    ...all("dgram", dgram, ["createSocket"]),
    ...all("dgram.Socket", dgram.Socket.prototype, ["bind", "connect", "send"]),
    ...all("dns", dns, matching(dns, asked)),
    ...all("dns.promises", dns.promises, matching(dns.promises, asked)),
  ];
}

const WRITING =
  /^(append|copy|cp|createWrite|f?truncate|[fl]?ch(mod|own)|[fl]?utimes|link|mkd|rename|rm|symlink|unlink|watch|write)/;

/** Reading at once is left: what shows a stack trace reads the maps of sources by that. */
function disk(): AccessPoint[] {
  // What has a twin that waits answers when the disk pleases, whatever it does.
  const slow = matching(fs, /./).filter((name) => `${name}Sync` in fs);
  const writing = matching(fs, WRITING).filter((name) => !slow.includes(name));
  // To a descriptor that is open: of standard output, for one.
  const atOnce = writing.filter((name) => !/^writev?Sync$/.test(name));
  const isWriting: AccessPoint["isRefused"] = ([, flags = "r"]) => flags !== "r" && flags !== 0;
  return [
    ...all("fs", fs, [...slow, ...atOnce, "createReadStream"]),
    ...all("fs.realpath", fs.realpath, ["native"]),
    { where: "fs", holder: fs, name: "openSync", isRefused: isWriting },
    ...all("fs.promises", fs.promises, matching(fs.promises, /./)),
  ];
}

function processes(): AccessPoint[] {
  const starting = matching(childProcess, /^(exec|fork|spawn)/);
  return [
    ...all("child_process", childProcess, starting),
    ...all("child_process", childProcess.ChildProcess.prototype, ["spawn"]),
    ...all("process", process, ["kill"]),
  ];
}

function all(where: string, holder: object, names: readonly string[]): AccessPoint[] {
  return names.map((name) => ({ where, holder, name }));
}

function protoOf(object: object): object {
  return Object.getPrototypeOf(object) as object;
}

/** The functions of a module that are called so. */
function matching(holder: object, pattern: RegExp): string[] {
  const all = Object.getOwnPropertyDescriptors(holder) as Record<string, PropertyDescriptor>;
  return Object.keys(all).filter(
    (name) => pattern.test(name) && all[name]?.configurable && isCallable(all[name]),
  );
}

function isCallable({ value, get }: PropertyDescriptor): boolean {
  return typeof value === "function" || get !== undefined;
}
