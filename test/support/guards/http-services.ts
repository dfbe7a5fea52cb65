// Guarded services on loopback, one for each framework, and helpers to send requests to them.

import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import express from "express";
import fastify from "fastify";
import { Hono } from "hono";
import { afterEach } from "vitest";
import { type HttpGuardOptions, httpGuard } from "../../../src/guards/http/index.ts";

const endings: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of endings.splice(0).reverse()) await end();
});

/** Handles the body of a request. A returned text is the response. */
export type Work = (body: string) => unknown;

async function runWork(work: Work, body: string): Promise<string> {
  const result = await work(body);
  return typeof result === "string" ? result : "done";
}

/** Starts a guarded service on each framework, and returns its URL. */
export const services: Record<string, (options: HttpGuardOptions, work: Work) => Promise<string>> =
  {
    "node:http": (options, work) => {
      const fence = httpGuard(options);
      const handler = async (req: IncomingMessage, res: ServerResponse): Promise<void> => {
        let body = "";
        for await (const chunk of req) body += chunk;
        res.end(await runWork(work, body));
      };
      return listen(createServer(fence.guarded(handler)));
    },
    "Express (wrapped handler)": (options, work) => {
      const app = express();
      app.put(
        "/",
        express.text(),
        httpGuard(options).guarded(async (req: express.Request, res: express.Response) => {
          res.send(await runWork(work, String(req.body)));
        }),
      );
      return listen(createServer(app));
    },
    "Express (middleware)": (options, work) => {
      const app = express();
      app.use(express.text(), httpGuard(options).express);
      app.put("/", async (req, res) => {
        res.send(await runWork(work, String(req.body)));
      });
      return listen(createServer(app));
    },
    Fastify: async (options, work) => {
      const app = fastify();
      endings.push(() => app.close());
      app.put("/", { preHandler: httpGuard(options).fastify }, async (req) => {
        return runWork(work, String(req.body));
      });
      return app.listen({ port: 0, host: "127.0.0.1" });
    },
    Hono: async (options, work) => {
      const app = new Hono();
      app.use(httpGuard(options).hono);
      app.put("/", async (c) => {
        return c.text(await runWork(work, await c.req.text()));
      });
      const server = serve({ fetch: app.fetch, port: 0, hostname: "127.0.0.1" });
      await once(server, "listening");
      endings.push(() => server.close());
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
  };

export async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  endings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export function put(url: string, header?: string | undefined, body = "x"): Promise<Response> {
  const headers: Record<string, string> = { "content-type": "text/plain" };
  if (header !== undefined) headers["Fencing-Token"] = header;
  return fetch(url, { method: "PUT", body, headers });
}
export const plain = (token: bigint | number | string, resource = "settlement"): string =>
  `resource="${resource}", token=${token}`;

export async function waitFor(isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 2_000; tries += 1) {
    if (await isSo()) return;
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  throw new Error("It never came true.");
}
