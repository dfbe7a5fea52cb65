// The guard for a service: requests carry the token in a header, and a handler runs only when it is admitted. The highest
// tokens are kept in any other guard (SQLite, PostgreSQL, memory for one process). Comparison and handler are one step
// within this process (http/turns.ts). Several processes behind one name share only the comparison: between it and the
// handler's effect a newer holder may pass at another one, so there the handler writes through a guard of its own, which
// finds the same token in the async context.

import type { IncomingMessage, ServerResponse } from "node:http";
import { runUnder } from "../core/context.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { checkResource } from "../core/resource.ts";
// biome-ignore lint/style/noRestrictedImports: what no caller sees becomes a warning of the process, as elsewhere
import { warn } from "../runtime/system.ts";
import type { Guard, TokenSource } from "./guard.ts";
import { Admission } from "./http/admission.ts";
import { HEADER } from "./http/header.ts";
import type { Refusal } from "./http/refusal.ts";

export type { Guard, TokenSource } from "./guard.ts";
export {
  type FencedFetch,
  type FencedFetchOptions,
  type FencedInit,
  fencedFetch,
} from "./http/fetch.ts";

/** What is asked of a verifier (tenure/guards/signed). */
export interface TokenVerifier {
  verify(text: string): TokenSource;
}

export interface HttpGuardOptions {
  /** Where the highest tokens are kept: a guard that survives restarts, such as sqliteGuard(). */
  readonly guard: Guard;
  /** The resource that all requests here write to. Either this or `resourceOf`. */
  readonly resource?: string | undefined;
  /** The resource that this request writes to, by its path, say; it gets what the framework hands to handlers. */
  // biome-ignore lint/suspicious/noExplicitAny: an IncomingMessage, or the request or context of a framework
  readonly resourceOf?: ((request: any) => string) | undefined;
  /** Believe only signed tokens: verifier({ keys }) of tenure/guards/signed. @default any token */
  readonly signedBy?: TokenVerifier | undefined;
  /**
   * A handler waits until no handler of a lower token runs in this process. False: only the comparison is made, and the
   * handler has to write through a guard of its own. @default true
   */
  readonly exclusive?: boolean | undefined;
  /** Told when the guard itself fails; the client gets 503 without details. @default a warning of the process */
  readonly onError?: ((error: unknown) => void) | undefined;
}

const HTTP_GUARD_OPTIONS: OptionNames<HttpGuardOptions> = {
  guard: true,
  resource: true,
  resourceOf: true,
  signedBy: true,
  exclusive: true,
  onError: true,
};

/** What is used of node:http's request and response; Express' are the same objects. */
export interface NodeRequest {
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}
export interface NodeResponse {
  readonly closed: boolean;
  writeHead(status: number, headers: Record<string, string>): { end(body: string): unknown };
  once(event: "close", listener: () => void): unknown;
}
export interface FastifyLikeReply {
  code(status: number): unknown;
  header(name: string, value: string): unknown;
  send(body: string): unknown;
  readonly raw: NodeResponse;
}
export interface HonoLikeContext {
  readonly req: { header(name: string): string | undefined; readonly raw: object };
}

export interface HttpGuard {
  /**
   * Wraps a handler of node:http or Express. It counts as running until its promise has settled and the response is
   * closed, so let it return a promise: of other handlers only the response can be seen.
   */
  guarded<
    Request extends NodeRequest = IncomingMessage,
    Response extends NodeResponse = ServerResponse,
    Rest extends unknown[] = [],
  >(
    handler: (request: Request, response: Response, ...rest: Rest) => unknown,
  ): (request: Request, response: Response, ...rest: Rest) => Promise<void>;
  /** `app.use(fence.express)`, behind body parsers. The handlers count as running until the response is closed. */
  express(request: NodeRequest, response: NodeResponse, next: (error?: unknown) => void): void;
  /** `{ preHandler: fence.fastify }` of a route, or `app.addHook("preHandler", fence.fastify)`. As with Express. */
  fastify(request: NodeRequest, reply: FastifyLikeReply, done: (error?: Error) => void): void;
  /** `app.use("/ledger/*", fence.hono)`. The handlers count as running until they have answered. */
  hono(context: HonoLikeContext, next: () => Promise<void>): Promise<Response | undefined>;
  /** The token a request was admitted with, for code that has lost the async context. Hono: `context.req.raw`. */
  tokenOf(request: object): TokenSource | undefined;
}

export function httpGuard(options: HttpGuardOptions): HttpGuard {
  checkOptions(options);
  const admission = new Admission({ ...options, onError: options.onError ?? warnOfGuard });

  async function guarded<Request extends NodeRequest, Response extends NodeResponse>(
    request: Request,
    response: Response,
    handler: () => unknown,
  ): Promise<void> {
    const entry = await admission.enter(request, request, headerOf(request));
    if ("status" in entry) return answer(response, entry);
    // The client has gone while its turn came: nothing was begun, and nobody would hear of it.
    if (response.closed) return entry.leave();
    try {
      await runUnder(entry.held, handler);
    } catch (error) {
      entry.leave();
      throw error;
    }
    whenClosed(response, entry.leave);
  }

  return {
    tokenOf: (request) => admission.tokenOf(request),
    guarded:
      (handler) =>
      (request, response, ...rest) =>
        guarded(request, response, () => handler(request, response, ...rest)),
    express: (request, response, next) => {
      void admission.enter(request, request, headerOf(request)).then((entry) => {
        if ("status" in entry) return answer(response, entry);
        whenClosed(response, entry.leave);
        if (!response.closed) void runUnder(entry.held, () => next());
      });
    },
    fastify: (request, reply, done) => {
      void admission.enter(request, request, headerOf(request)).then((entry) => {
        if ("status" in entry) {
          reply.code(entry.status);
          for (const [name, value] of Object.entries(entry.headers)) reply.header(name, value);
          reply.send(entry.body);
          return;
        }
        whenClosed(reply.raw, entry.leave);
        if (!reply.raw.closed) void runUnder(entry.held, () => done());
      });
    },
    hono: async (context, next) => {
      const { req } = context;
      const entry = await admission.enter(context, req.raw, req.header(HEADER));
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

function headerOf({ headers }: NodeRequest): string | undefined {
  const value = headers[HEADER.toLowerCase()];
  return Array.isArray(value) ? value.join(", ") : value;
}

function answer(response: NodeResponse, { status, headers, body }: Refusal): void {
  if (!response.closed) response.writeHead(status, { ...headers }).end(body);
}

function whenClosed(response: NodeResponse, leave: () => void): void {
  if (response.closed) leave();
  else response.once("close", leave);
}

function warnOfGuard(error: unknown): void {
  warn("The guard behind httpGuard() failed, and a request was refused with 503.", error);
}

function checkOptions(options: HttpGuardOptions): void {
  checkOptionNames("httpGuard()", options, HTTP_GUARD_OPTIONS);
  const { guard, resource, resourceOf, signedBy } = options;
  if (typeof guard?.raise !== "function") {
    throw new InvalidArgumentError(
      "httpGuard({ guard }) needs the guard that keeps the highest tokens, e.g. sqliteGuard(database).",
    );
  }
  if ((resource === undefined) === (resourceOf === undefined)) {
    throw new InvalidArgumentError(
      "httpGuard() needs either `resource` or `resourceOf(request)`: what the header says alone would let a client choose whose token it shows.",
    );
  }
  if (resource !== undefined) checkResource(resource);
  if (signedBy !== undefined && typeof signedBy?.verify !== "function") {
    throw new InvalidArgumentError(
      "`signedBy` takes a verifier({ keys }) of tenure/guards/signed.",
    );
  }
}
