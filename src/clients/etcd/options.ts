// The options of the etcd store and guard, and their checks. Invalid options are rejected before
// anything is connected.

import type { Clock } from "../../async/clock.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import {
  checkClientOptions,
  checkLogin,
  checkMilliseconds,
  checkUrlOrClient,
  DEFAULT_CONNECT_MS,
  mergeUrlOptions,
} from "../shared/options.ts";
import type { Login } from "./client.ts";
import { type EtcdTlsOptions, Http2Transport } from "./http2-transport.ts";
import { checkedPrefix, type Names, namesOf } from "./names.ts";
import type { EtcdTransport } from "./transport.ts";
import { parseEtcdUrl } from "./url.ts";

/** Options of etcdStore(), and the target of etcdGuard(). */
export interface EtcdOptions {
  /**
   * The members of the cluster: `etcd://10.0.0.1:2379,10.0.0.2:2379`, or `etcds://` for TLS. Name
   * all members: with one, the store is unavailable while that member is down. User, password,
   * prefix and `?connect-ms=` may be in the URL or in these options. Exactly one of `url` and
   * `client`.
   */
  readonly url?: string | undefined;
  /**
   * Your own gRPC channel. It must find a healthy member by itself and end calls that are
   * cancelled.
   */
  readonly client?: EtcdTransport | undefined;
  /**
   * For `etcds://`: the options of tls.connect() such as ca, cert, key and servername.
   * @default the certificates that Node trusts
   */
  readonly tls?: EtcdTlsOptions | undefined;
  /** Needed if authentication is enabled in etcd. docs/stores/etcd.md lists the permissions. */
  readonly username?: string | undefined;
  /** The password of `username`. Set both or neither. */
  readonly password?: string | undefined;
  /**
   * The namespace: all keys begin with it. All competing processes must use the same one.
   * @default "tenure"
   */
  readonly prefix?: string | undefined;
  /**
   * How long opening the store may take, in milliseconds. Too small: a slow start of the server
   * looks like an outage. Too large: a wrong address is noticed late. @default 5000
   */
  readonly connectMs?: number | undefined;
  /**
   * Receives, when the store is opened, the known faults of the server's version.
   * @default process.emitWarning
   */
  readonly onWarning?: ((text: string) => void) | undefined;
}

export interface Settings {
  readonly names: Names;
  readonly login: Login | undefined;
  readonly connectMs: number;
  readonly onWarning: ((text: string) => void) | undefined;
  transports(clock: Clock): readonly EtcdTransport[];
}

const ETCD_OPTIONS: OptionNames<EtcdOptions> = {
  url: true,
  client: true,
  tls: true,
  username: true,
  password: true,
  prefix: true,
  connectMs: true,
  onWarning: true,
};

/** `call` is the function that was given the options: the store's or the guard's. */
export function checkEtcdOptions(options: EtcdOptions, call = "etcdStore()"): Settings {
  checkOptionNames(call, options, ETCD_OPTIONS);
  checkUrlOrClient(call, options, "etcd://localhost:2379");
  const { client } = options;
  if (client !== undefined) checkTransport(client);
  checkClientOptions(call, options, ["tls"]);
  const url = client === undefined ? parseEtcdUrl(options.url) : undefined;
  const merged = mergeUrlOptions(call, options, url?.options ?? {});
  const { tls, username, password, connectMs = DEFAULT_CONNECT_MS } = merged;
  checkMilliseconds("connectMs", connectMs);
  checkLogin(merged);
  if ((username === undefined) !== (password === undefined))
    throw new InvalidArgumentError("etcd needs `username` and `password` together.");
  if (tls !== undefined && url?.isTls === false)
    throw new InvalidArgumentError("`tls` needs a URL that begins with etcds://.");
  const target = { tls: url?.isTls ? (tls ?? {}) : undefined, connectMs };
  return {
    names: namesOf(checkedPrefix(merged.prefix ?? "tenure")),
    login: username === undefined ? undefined : { name: username, password: password ?? "" },
    connectMs,
    onWarning: options.onWarning,
    transports: (clock) =>
      client === undefined
        ? (url?.hosts ?? []).map((host) => new Http2Transport({ ...host, ...target }, clock))
        : [client],
  };
}

function checkTransport(client: EtcdTransport): void {
  const methods = ["call", "stream", "reset", "close"] as const;
  const missing = methods.find((name) => typeof client?.[name] !== "function");
  if (missing === undefined) return;
  throw new InvalidArgumentError(
    `etcd takes as \`client\` an object with call, stream, reset and close (EtcdTransport); ${missing} is missing.`,
  );
}
