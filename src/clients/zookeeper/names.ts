// The paths of all nodes, and what the names of queue nodes mean. Resources and attempts may be any
// text. In paths they are percent-encoded, which leaves ordinary names readable.

export interface Names {
  readonly root: string;
  readonly leases: string;
  readonly sessions: string;
  readonly guards: string;
  /** The node in which the guard keeps the highest token of a resource. */
  highest(resource: string): string;
  /** The node whose children are the queue of a resource. */
  parent(resource: string): string;
  /** The node that every renewal of a session writes. */
  sessionNode(session: string): string;
  /** The node to which other processes append notices for a session. */
  noticesNode(session: string): string;
}

export function namesOf(root: string): Names {
  const base = root === "/" ? "" : root;
  const [leases, sessions, guards] = [`${base}/leases`, `${base}/sessions`, `${base}/guards`];
  return {
    root,
    leases,
    sessions,
    guards,
    highest: (resource) => `${guards}/${encodeName(resource)}`,
    parent: (resource) => `${leases}/${encodeName(resource)}`,
    sessionNode: (session) => `${sessions}/${session}`,
    noticesNode: (session) => `${sessions}/${session}-notices`,
  };
}

/** A legal name of a node: no slash, no control character, not "." or "..". */
export function encodeName(text: string): string {
  const encoded = encodeURIComponent(text);
  return /^\.{1,2}$/.test(encoded) ? encoded.replaceAll(".", "%2E") : encoded;
}

/** Undefined for a name that encodeName() never returns: the node belongs to another program. */
export function decodeName(name: string): string | undefined {
  try {
    const text = decodeURIComponent(name);
    return encodeName(text) === name ? text : undefined;
  } catch {
    return undefined;
  }
}

/** A ZooKeeper session in the names of its nodes: 16 hexadecimal digits. */
export function sessionName(sessionId: bigint): string {
  return BigInt.asUintN(64, sessionId).toString(16).padStart(16, "0");
}

/**
 * The beginning of the names of one attempt's nodes. The end of a session is one transaction with
 * the paths of all its nodes, and the server limits its size. Therefore the Tenure session, with
 * which the name of an attempt usually begins, is left out.
 */
export function nodeBase(session: string, sessionId: string, attempt: string): string {
  const short = attempt.startsWith(`${sessionId}.`)
    ? attempt.slice(sessionId.length)
    : `!${attempt}`;
  return `${session}-${encodeName(short)}`;
}

/**
 * A node in the queue of a resource. Its name is the base, then `@rank.holder.arrival` if the
 * request named a rank, then `_` and a number that the server assigns.
 */
export interface QueueNode {
  readonly name: string;
  /** The ZooKeeper session that it belongs to. */
  readonly session: string;
  readonly rank: number;
  /** A hash of the holder id. Only if the request named a rank. */
  readonly holder: string | undefined;
  /** The number of the attempt's first node. */
  readonly arrival: number;
}

const TAG = "(?:@(\\d{1,9})\\.([0-9a-f]{8})\\.(-?\\d{1,10})?)?_(-?\\d{10,15})";
const NODE = new RegExp(`^([0-9a-f]{16})-.*?${TAG}$`, "s");
const REST = new RegExp(`^${TAG}$`);

/** Whether a node with this name belongs to the attempt with this base. */
export function isNodeOf(base: string, name: string): boolean {
  return name.startsWith(base) && REST.test(name.slice(base.length));
}

/** The queue nodes among the children of a resource, in order. Other names are left out. */
export function queueNodesOf(children: readonly string[]): QueueNode[] {
  const nodes = children.map(readNode).filter((node) => node !== undefined);
  nodes.sort((one, other) => order(one.sequence, other.sequence));
  return nodes;
}

function readNode(name: string): (QueueNode & { sequence: number }) | undefined {
  const match = NODE.exec(name);
  if (match === null) return undefined;
  const [, session = "", rank, holder, arrival, number] = match;
  const sequence = Number(number);
  return {
    name,
    session,
    sequence,
    rank: Number(rank ?? 0),
    holder,
    arrival: Number(arrival ?? sequence),
  };
}

/**
 * Compares two numbers of one counter. The server counts in signed 32-bit numbers, and -2147483648
 * follows 2147483647. Nodes that exist together are never 2^31 numbers apart, so the shorter way
 * around decides.
 */
export function order(one: number, other: number): number {
  return (one - other) | 0;
}
