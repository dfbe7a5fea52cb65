// Reads what arrives on the channel. Any role that can connect to the database may send anything there (NOTIFY needs no
// permission), so a payload is believed only as far as its shape goes, and it can only ever cause a check (S8).

export type Notice =
  /** Something about the resource has changed. */
  | { readonly kind: "changed"; readonly resource: string }
  /** The resource is free; these attempts are first in its queue. */
  | { readonly kind: "turn"; readonly resource: string; readonly queue: readonly string[] }
  /** A process checks whether its own notifications arrive. */
  | { readonly kind: "proof" }
  /** Not one of ours: check everything. */
  | { readonly kind: "unknown" };

const UNKNOWN: Notice = { kind: "unknown" };

export function parseNotice(payload: string): Notice {
  const text = payload.slice(1);
  if (payload.startsWith("r")) return { kind: "changed", resource: text };
  if (payload.startsWith("p")) return { kind: "proof" };
  return payload.startsWith("t") ? parseTurn(text) : UNKNOWN;
}

function parseTurn(text: string): Notice {
  let turn: unknown;
  try {
    turn = JSON.parse(text);
  } catch {
    return UNKNOWN;
  }
  if (!Array.isArray(turn) || turn.length !== 2) return UNKNOWN;
  const [resource, queue] = turn as unknown[];
  const isText = (value: unknown): value is string => typeof value === "string";
  if (!isText(resource) || !Array.isArray(queue) || !queue.every(isText)) return UNKNOWN;
  return { kind: "turn", resource, queue };
}
