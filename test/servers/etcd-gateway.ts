// Requests of the harness itself to etcd, through the JSON gateway of each member, so that no gRPC
// client is needed.
import { request as requestPlain } from "node:http";
import { request as requestTls } from "node:https";
import type { Address } from "./ask.ts";

export interface Login {
  readonly name: string;
  readonly password: string;
}

type Json = Record<string, unknown>;

const CALL_MAX_MS = 10_000;

/**
 * Sends one request, as the user of `login` if it is given. An error status is thrown with the
 * message of etcd.
 */
export async function callEtcd(
  address: Address,
  path: string,
  body: object,
  login?: Login,
): Promise<Json> {
  const token =
    login && String((await callEtcd(address, "/v3/auth/authenticate", login)).token ?? "");
  const { status, text } = await send(address, path, {
    method: "POST",
    body: JSON.stringify(body),
    headers: token === undefined ? {} : { authorization: token },
    limitMs: CALL_MAX_MS,
  });
  const answer = JSON.parse(text) as Json;
  if (status !== 200) throw new Error(`etcd refused ${path}: ${String(answer.error ?? text)}`);
  return answer;
}

/** True if the member has a leader and can serve requests. */
export async function isEtcdHealthy(address: Address, limitMs: number): Promise<boolean> {
  try {
    const { text } = await send(address, "/health", { method: "GET", limitMs });
    return /"health":\s*"true"/.test(text);
  } catch {
    return false;
  }
}

interface HttpRequest {
  readonly method: "GET" | "POST";
  readonly limitMs: number;
  readonly body?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

function send(
  { host, port, ca }: Address,
  path: string,
  { method, limitMs, body = "", headers = {} }: HttpRequest,
): Promise<{ status: number; text: string }> {
  return new Promise((resolve, reject) => {
    const request = ca === undefined ? requestPlain : requestTls;
    const sent = request(
      { host, port, ca, path, method, headers, agent: false, signal: AbortSignal.timeout(limitMs) },
      (response) => {
        let text = "";
        response.setEncoding("utf8");
        response.on("data", (chunk: string) => {
          text += chunk;
        });
        response.on("error", reject);
        response.on("end", () => resolve({ status: response.statusCode ?? 0, text }));
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}
