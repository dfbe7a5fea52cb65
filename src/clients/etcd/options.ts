// What a user may say about the store, in terms of what follows from it. Checked before anything is connected.

import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { hostPortOf } from "../shared/url.ts";
import { Http2Transport, type TlsOptions } from "./http2-transport.ts";
import type { Login } from "./members.ts";
import { checkedPrefix, type Names, namesOf } from "./names.ts";
import type { EtcdTransport } from "./transport.ts";

export interface EtcdOptions {
  /**
   * The members: `["10.0.0.1:2379", "10.0.0.2:2379"]`, also as `https://10.0.0.1:2379`. Name all of them: with one, its
   * end is yours.
   */
  readonly endpoints?: readonly string[] | undefined;
  /** A gRPC channel of your own instead. It must find a healthy member by itself, and end calls that are cancelled. */
  readonly transport?: EtcdTransport | undefined;
  /** For TLS: what tls.connect() takes: ca, cert, key, servername. `{}` trusts what Node trusts. @default none, or `{}` for https:// */
  readonly tls?: TlsOptions | undefined;
  /** With authentication switched on in etcd. The role that the user needs is in docs/stores/etcd.md. */
  readonly username?: string | undefined;
  readonly password?: string | undefined;
  /** Keys begin with it. All processes that compete must use the same one: two prefixes are two worlds. @default tenure/ */
  readonly prefix?: string | undefined;
  /**
   * Connecting and looking at the cluster fails after this long, in milliseconds. Too small: a slow
   * start of the server looks like an outage. Too large: a wrong address is noticed late. @default 5,000
   */
  readonly connectMs?: number | undefined;
  /** Told, at connect, what the version of etcd puts at risk. @default nobody */
  readonly onWarning?: ((text: string) => void) | undefined;
}

export interface Settings {
  readonly names: Names;
  readonly login: Login | undefined;
  readonly connectMs: number;
  readonly onWarning: (text: string) => void;
  transports(clock: Clock): readonly EtcdTransport[];
}

interface Endpoint {
  readonly host: string;
  readonly port: number;
  readonly isTls: boolean;
}

const DEFAULT_PORT = 2379;

const ETCD_OPTIONS: OptionNames<EtcdOptions> = {
  endpoints: true,
  transport: true,
  tls: true,
  username: true,
  password: true,
  prefix: true,
  connectMs: true,
  onWarning: true,
};

/** `call` is the function that was given the options: the store's or the guard's. */
export function settingsOf(options: EtcdOptions, call = "etcdStore()"): Settings {
  checkOptionNames(call, options, ETCD_OPTIONS);
  const { endpoints, transport, tls, username, password, connectMs = 5_000 } = options;
  if ((endpoints === undefined) === (transport === undefined)) {
    throw new InvalidArgumentError(
      'etcd needs either { endpoints: ["localhost:2379"] } or { transport }, not both.',
    );
  }
  if (!(connectMs > 0 && connectMs < 2 ** 31))
    throw new InvalidArgumentError("`connectMs` must be a number of milliseconds above 0.");
  if ((username === undefined) !== (password === undefined))
    throw new InvalidArgumentError("etcd needs `username` and `password` together.");
  if (transport !== undefined) checkTransport(transport, tls);
  const members = endpoints === undefined ? [] : checkEndpoints(endpoints);
  const isTls = tls !== undefined || members.some((member) => member.isTls);
  const target = { tls: isTls ? (tls ?? {}) : undefined, connectMs };
  return {
    names: namesOf(checkedPrefix(options.prefix ?? "tenure/")),
    login: username === undefined ? undefined : { name: username, password: password ?? "" },
    connectMs,
    onWarning: options.onWarning ?? (() => undefined),
    transports: (clock) =>
      transport === undefined
        ? members.map(({ host, port }) => new Http2Transport({ host, port, ...target }, clock))
        : [transport],
  };
}

function checkTransport(transport: EtcdTransport, tls: unknown): void {
  const methods = ["call", "stream", "reset", "close"] as const;
  const missing = methods.find((name) => typeof transport?.[name] !== "function");
  if (missing !== undefined) {
    throw new InvalidArgumentError(
      `{ transport } takes an object with call, stream, reset and close (EtcdTransport); ${missing} is missing.`,
    );
  }
  if (tls !== undefined)
    throw new InvalidArgumentError("`tls` belongs to `endpoints`: a transport has its own.");
}

function checkEndpoints(endpoints: unknown): Endpoint[] {
  if (!Array.isArray(endpoints) || endpoints.length === 0) {
    throw new InvalidArgumentError(
      '`endpoints` must be a list of addresses such as ["10.0.0.1:2379"], with at least one.',
    );
  }
  const members = endpoints.map(endpointOf);
  const schemes = new Set(endpoints.map((text) => /^(https?):/i.exec(String(text))?.[1]));
  if (schemes.size > 1)
    throw new InvalidArgumentError("`endpoints` must be all https://, all http:// or all without.");
  return members;
}

function endpointOf(given: unknown, index: number): Endpoint {
  const [, scheme, address = ""] = /^(?:(https?):\/\/)?(.*?)\/?$/is.exec(String(given)) ?? [];
  const at = hostPortOf(address, DEFAULT_PORT);
  if (at !== undefined) return { ...at, isTls: scheme?.toLowerCase() === "https" };
  // The text is not shown: it may contain a password.
  throw new InvalidArgumentError(
    `Endpoint ${index + 1} is not an address of etcd such as 10.0.0.1:2379 or https://etcd-1:2379. ` +
      "Pass user and password as `username` and `password`.",
  );
}
