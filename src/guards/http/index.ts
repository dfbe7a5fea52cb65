// The guard for an HTTP service. Requests carry the token in a header, and a handler runs only if
// its token is admitted. Another guard (SQLite, PostgreSQL, memory) stores the highest tokens.
// Within one process, comparison and handler are one step (turns.ts). Several processes of a
// service share only the comparison: after it, another process may admit a newer holder. There, the
// handler must write through its own guard, which finds the same token in the async context.

import type { IncomingMessage, ServerResponse } from "node:http";
import { runUnder } from "../../async/context.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
// biome-ignore lint/style/noRestrictedImports: guards are created without connect()
import { systemParts, warn } from "../../runtime/system.ts";
import { checkLimit, type Guard, isPromise, type TokenSource } from "../guard.ts";
import { Admission, type Arrival } from "./admission.ts";
import { HEADER } from "./header.ts";
import { hasEnded, type NodeResponse, reject, whenEnded } from "./response.ts";

/** The default of `waitMs`. */
const WAIT_MS = 10_000;

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export {
  type FencedFetch,
  type FencedFetchOptions,
  type FencedInit,
  fencedFetch,
} from "./fetch.ts";
export type { NodeResponse } from "./response.ts";

/** A verifier() of tenure/proof. */
export interface TokenVerifier {
  /** Returns the content of a signed token, or throws UntrustedTokenError. */
  verify(text: string): TokenSource;
}

/** Options of httpGuard(). */
export interface HttpGuardOptions {
  /**
   * Stores the highest tokens. Use a guard whose tokens survive restarts, such as sqliteGuard().
   */
  readonly guard: Guard;
  /** The resource that all requests write to. Set either this or `resourceOf`. */
  readonly resource?: string | undefined;
  /**
   * Returns the resource that a request writes to, for example from its path. The argument is what
   * the framework passes to handlers.
   */
  // biome-ignore lint/suspicious/noExplicitAny: the type depends on the framework
  readonly resourceOf?: ((request: any) => string) | undefined;
  /**
   * Accepts only tokens signed with a trusted key: verifier({ keys }) of tenure/proof. @default any
   * token
   */
  readonly signedBy?: TokenVerifier | undefined;
  /**
   * A handler waits until no handler with a lower token runs in this process. If false, only the
   * comparison is made, and the handler must write through its own guard. @default true
   */
  readonly exclusive?: boolean | undefined;
  /**
   * How long a request waits for requests of earlier holders, in milliseconds, before it is
   * answered with 503. Too small: the first requests of a new holder fail while a slow request of
   * the former one is in progress. Too large: if a handler does not end, clients wait longer for
   * their error. @default 10000
   */
  readonly waitMs?: number | undefined;
  /**
   * Called with the error when the guard itself fails. The client gets 503 without details. If this
   * function throws, a process warning is emitted. @default emits a process warning
   */
  readonly onError?: ((error: unknown) => unknown) | undefined;
}

const HTTP_GUARD_OPTIONS: OptionNames<HttpGuardOptions> = {
  guard: true,
  resource: true,
  resourceOf: true,
  signedBy: true,
  exclusive: true,
  waitMs: true,
  onError: true,
};

/** The part of a node:http request that the guard uses. */
export interface NodeRequest {
  /** The headers by their names in lower case. */
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
/** The part of a Fastify reply that the guard uses. */
export interface FastifyLikeReply {
  /** Sets the status code. */
  code(status: number): unknown;
  /** Sets a header. */
  header(name: string, value: string): unknown;
  /** Sends the body. */
  send(body: string): unknown;
  /** The response of node:http below the reply. */
  readonly raw: NodeResponse;
}
/** The part of a Hono context that the guard uses. */
export interface HonoLikeContext {
  /**
   * The request. The `signal` of `raw` aborts when the client disconnects, if the server supports
   * it.
   */
  readonly req: {
    header(name: string): string | undefined;
    readonly raw: { readonly signal?: AbortSignal };
  };
}

/** Rejects requests with a stale token, in node:http, Express, Fastify and Hono. */
export interface HttpGuard {
  /**
   * Wraps a handler of node:http or Express. It counts as running until its promise has settled. A
   * handler that returns no promise counts as running until it has ended the response or the client
   * has closed the connection.
   */
  guarded<
    Request extends NodeRequest = IncomingMessage,
    Response extends NodeResponse = ServerResponse,
    Rest extends unknown[] = [],
  >(
    handler: (request: Request, response: Response, ...rest: Rest) => unknown,
  ): (request: Request, response: Response, ...rest: Rest) => Promise<void>;
  /**
   * `app.use(fence.express)`, after body parsers. The handlers count as running until they have
   * ended the response or the client has closed the connection.
   */
  express(request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void): void;
  /**
   * `{ preHandler: fence.fastify }` of a route, or `app.addHook("preHandler", fence.fastify)`.
   * Handlers count as running as with Express.
   */
  fastify(request: NodeRequest, reply: FastifyLikeReply, done: (error?: Error) => void): void;
  /** `app.use("/ledger/*", fence.hono)`. The handlers count as running until they have answered. */
  hono(context: HonoLikeContext, next: () => Promise<void>): Promise<Response | undefined>;
  /**
   * The token of an admitted request, for code that has lost the async context. With Hono, pass
   * `context.req.raw`.
   */
  tokenOf(request: object): TokenSource | undefined;
}

/**
 * Creates a guard for an HTTP service. A client sends its token with fencedFetch(), or in the
 * header `Fencing-Token`.
 */
export function httpGuard(options: HttpGuardOptions): HttpGuard {
  checkOptions(options);
  const { onError = warnAboutGuard, waitMs = WAIT_MS } = options;
  const { clock } = systemParts();
  const report = (error: unknown): void => reportTo(onError, error);
  const admission = new Admission({ ...options, waitMs, clock, onError: report });
  return {
    tokenOf: (request) => admission.tokenOf(request),
    guarded:
      (handler) =>
      (request, response, ...rest) =>
        guarded(admission, toArrival(request, response), {
          response,
          handler: () => handler(request, response, ...rest),
        }),
    express: (request, response, next) => {
      const run = async (): Promise<void> => {
        const entry = await admission.enter(toArrival(request, response));
        if ("status" in entry) return reject(response, entry);
        whenEnded(response, entry.leave);
        if (!hasEnded(response)) await runUnder(entry.held, () => next());
      };
      run().catch(next);
    },
    fastify: (request, reply, done) => {
      const { raw } = reply;
      const run = async (): Promise<void> => {
        const entry = await admission.enter(toArrival(request, raw));
        if ("status" in entry) {
          reject(raw, entry, () => {
            reply.code(entry.status);
            for (const [name, value] of Object.entries(entry.headers)) reply.header(name, value);
            reply.send(entry.body);
          });
          return;
        }
        whenEnded(raw, entry.leave);
        if (!hasEnded(raw)) await runUnder(entry.held, () => done());
      };
      run().catch(done);
    },
    hono: async (context, next) => {
      const { raw } = context.req;
      const header = context.req.header(HEADER);
      const onGone = (leave: () => void): void => whenAborted(raw, leave);
      const entry = await admission.enter({ request: context, key: raw, header, onGone });
      if ("status" in entry) {
        const { status, headers, body } = entry;
        return new Response(body, { status, headers });
      }
      try {
        await runUnder(entry.held, next);
        return undefined;
      } finally {
        entry.leave();
      }
    },
  };
}

async function guarded(
  admission: Admission,
  arrival: Arrival,
  { response, handler }: { response: NodeResponse; handler: () => unknown },
): Promise<void> {
  const entry = await admission.enter(arrival);
  if ("status" in entry) return reject(response, entry);
  // The client has disconnected, or other code has answered it, while the request waited.
  if (hasEnded(response)) return entry.leave();
  let result: unknown;
  try {
    await runUnder(entry.held, () => {
      result = handler();
      return result;
    });
  } catch (error) {
    entry.leave();
    throw error;
  }
  if (isPromise(result)) entry.leave();
  else whenEnded(response, entry.leave);
}

function toArrival(request: NodeRequest, response: NodeResponse): Arrival {
  const onGone = (leave: () => void): void => whenEnded(response, leave);
  const value = request.headers[HEADER.toLowerCase()];
  const header = Array.isArray(value) ? value.join(", ") : value;
  return { request, key: request, header, onGone };
}

/**
 * Calls back when the client of a fetch-style Request has closed its connection, if the server
 * reports that.
 */
function whenAborted(request: { readonly signal?: AbortSignal }, listener: () => void): void {
  const { signal } = request;
  if (signal?.aborted === true) listener();
  else signal?.addEventListener("abort", listener, { once: true });
}

function warnAboutGuard(error: unknown): void {
  warn("The guard of httpGuard() failed, and a request was answered with 503.", error);
}

/** An `onError` that fails must neither end the process nor delay the reply to the client. */
function reportTo(onError: (error: unknown) => unknown, error: unknown): void {
  const failed = (cause: unknown): void => {
    warnAboutGuard(error);
    warn("The `onError` of httpGuard() failed itself. Let it catch its own errors.", cause);
  };
  try {
    Promise.resolve(onError(error)).catch(failed);
  } catch (cause) {
    failed(cause);
  }
}

function checkOptions(options: HttpGuardOptions): void {
  checkOptionNames("httpGuard()", options, HTTP_GUARD_OPTIONS);
  const { guard, resource, resourceOf, signedBy, waitMs, onError } = options;
  if (typeof guard?.advance !== "function") {
    throw new InvalidArgumentError(
      "httpGuard({ guard }) needs the guard that keeps the highest tokens, e.g. sqliteGuard(database).",
    );
  }
  if ((resource === undefined) === (resourceOf === undefined)) {
    throw new InvalidArgumentError(
      "httpGuard() needs either `resource` or `resourceOf(request)`: otherwise the client could choose the resource that its token is compared for.",
    );
  }
  if (resource !== undefined) checkResource(resource);
  if (signedBy !== undefined && typeof signedBy?.verify !== "function") {
    throw new InvalidArgumentError("`signedBy` takes a verifier({ keys }) of tenure/proof.");
  }
  if (waitMs !== undefined) checkLimit("waitMs", waitMs);
  if (onError !== undefined && typeof onError !== "function") {
    throw new InvalidArgumentError(`\`onError\` must be a function, got ${typeof onError}.`);
  }
}
