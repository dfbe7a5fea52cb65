// What a user may set, checked before anything is connected.

import type { ConnectionOptions } from "node:tls";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { type HostPort, hostPortOf } from "../shared/url.ts";
import { type Dial, dialer } from "./hosts.ts";
import type { LinkSettings } from "./link.ts";
import type { Acl } from "./messages.ts";
import { type Names, namesOf } from "./names.ts";

export interface ZooKeeperOptions {
  /**
   * The members of the ensemble, "h1:2181,h2:2181,h3:2181" or as a list; without a port it is 2181. Each entry must be one
   * server: with two entries or more they are asked who leads, and their answers are believed. A load balancer goes in as
   * the only entry.
   */
  readonly hosts: string | readonly string[];
  /** The node below which everything is kept; created where it is missing. All who compete use the same. @default "/tenure" */
  readonly root?: string | undefined;
  /** For the digest scheme. All nodes then belong to this user alone. */
  readonly auth?: { readonly user: string; readonly password: string } | undefined;
  /**
   * The server's tickTime. Sessions end at multiples of it, so this says how late a lease may end (guarantees.expiryLagMs).
   * Too small, that figure is too small; nothing else depends on it. @default 2000
   */
  readonly tickMs?: number | undefined;
  /**
   * Opening the store has failed after this time, in milliseconds. Too small: a slow
   * start of the server looks like an outage. Too large: a wrong address is noticed late. @default 5,000
   */
  readonly connectMs?: number | undefined;
  /** TLS, with these options of node:tls; the port is then the server's secureClientPort. */
  readonly tls?: ConnectionOptions | undefined;
  /** Makes connections in place of node:net and node:tls: for tunnels and proxies. */
  readonly connect?: Dial | undefined;
}

export interface Settings {
  readonly link: Omit<LinkSettings, "prefersLeader">;
  readonly names: Names;
  readonly acl: Acl;
  readonly tickMs: number;
}

const DEFAULT_PORT = 2181;
const DAY_MS = 86_400_000;

const ZOOKEEPER_OPTIONS: OptionNames<ZooKeeperOptions> = {
  hosts: true,
  root: true,
  auth: true,
  tickMs: true,
  connectMs: true,
  tls: true,
  connect: true,
};

/** `call` is the function that was given the options: the store's or the guard's. */
export function settingsOf(options: ZooKeeperOptions, call = "zookeeperStore()"): Settings {
  checkOptionNames(call, options, ZOOKEEPER_OPTIONS);
  const { auth, tickMs = 2_000, connectMs = 5_000, root = "/tenure" } = options;
  checkMs("tickMs", tickMs);
  checkMs("connectMs", connectMs);
  if (
    auth !== undefined &&
    !(isText(auth.user) && isText(auth.password) && !auth.user.includes(":"))
  )
    throw new InvalidArgumentError(
      "`auth` must have a user and a password that are not empty, and no colon in the user.",
    );
  if (options.tls !== undefined && options.connect !== undefined)
    throw new InvalidArgumentError(
      "Give `tls` or `connect`, not both: `connect` makes the stream.",
    );
  return {
    link: {
      hosts: hostsOf(options.hosts),
      dial: options.connect ?? dialer(options.tls),
      auth: auth === undefined ? undefined : `${auth.user}:${auth.password}`,
      connectMs,
    },
    names: namesOf(rootOf(root)),
    acl: auth === undefined ? { scheme: "world", id: "anyone" } : { scheme: "auth", id: "" },
    tickMs,
  };
}

function hostsOf(given: unknown): HostPort[] {
  const entries = typeof given === "string" ? given.split(",") : given;
  if (!Array.isArray(entries) || entries.length === 0)
    throw new InvalidArgumentError('`hosts` must be like "h1:2181,h2:2181", or a list of such.');
  return entries.map(hostOf);
}

function hostOf(entry: unknown, index: number): HostPort {
  const host = hostPortOf(String(entry).trim(), DEFAULT_PORT);
  if (host !== undefined) return host;
  // The text is not shown: it may contain a password.
  throw new InvalidArgumentError(
    `Host ${index + 1} of \`hosts\` is not a host name or address with an optional port; write h1:2181, or [::1]:2181. ` +
      "Pass user and password as `auth`.",
  );
}

/** As the server would have it: absolute, no empty part, no "." and "..", no control characters. */
function rootOf(root: unknown): string {
  const parts = typeof root === "string" ? root.split("/").slice(1) : [];
  const isBad = (part: string): boolean => /^\.{0,2}$|[^ -~\u00a0-\ud7ff\uf900-\uffef]/.test(part);
  const isRoot = root === "/";
  if (typeof root !== "string" || !root.startsWith("/") || (!isRoot && parts.some(isBad))) {
    throw new InvalidArgumentError(
      'The root must be a path like "/tenure" or "/apps/billing": no empty part, no "." and "..", no control character.',
    );
  }
  if (parts[0] === "zookeeper") {
    throw new InvalidArgumentError(
      'The root may not be below "/zookeeper", which is the server\'s own.',
    );
  }
  return root;
}

function checkMs(name: string, value: unknown): void {
  if (typeof value !== "number" || !(value > 0 && value <= DAY_MS))
    throw new InvalidArgumentError(`\`${name}\` must be a number of milliseconds above 0.`);
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value !== "";
}
