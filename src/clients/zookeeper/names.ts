// Where things are: the paths below the root, and what the name of a node tells. Resources and attempts may be any text;
// as part of a path they are percent-encoded, which leaves ordinary names readable.

export interface Names {
  readonly root: string;
  readonly leases: string;
  readonly sessions: string;
  readonly guards: string;
  /** Where the guard keeps the highest token of a resource. */
  highest(resource: string): string;
  /** The node whose children compete for a resource. */
  parent(resource: string): string;
  /** Written by every renewal, and by everyone who revokes a lease of the session. */
  sessionNode(session: string): string;
  /** Where those who revoke say what. */
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
    noticesNode: (session) => `${sessions}/${session}-revoked`,
  };
}

/** Legal as a node's name: no slash, no control character, not "." or "..". */
export function encodeName(text: string): string {
  const encoded = encodeURIComponent(text);
  return /^\.{1,2}$/.test(encoded) ? encoded.replaceAll(".", "%2E") : encoded;
}

/** Undefined for a name that encodeName() does not make: someone else's node. */
export function decodeName(name: string): string | undefined {
  try {
    const text = decodeURIComponent(name);
    return encodeName(text) === name ? text : undefined;
  } catch {
    return undefined;
  }
}

/** A ZooKeeper session as its node and its places are named by it: 16 hexadecimal digits. */
export function sessionName(sessionId: bigint): string {
  return BigInt.asUintN(64, sessionId).toString(16).padStart(16, "0");
}

/**
 * The beginning of the names of one attempt's places; the server appends the number. An attempt's name mostly begins with
 * that of its Tenure session, which is left out: the end of a session is one transaction with the paths of all its places,
 * and the server limits how long it may be.
 */
export function placePrefix(session: string, sessionId: string, attempt: string): string {
  const short = attempt.startsWith(`${sessionId}.`)
    ? attempt.slice(sessionId.length)
    : `!${attempt}`;
  return `${session}-${encodeName(short)}_`;
}

/** One place in the queue for a resource. */
export interface Place {
  readonly name: string;
  /** By the order of their coming; see order(). */
  readonly sequence: number;
  /** The session that it belongs to. */
  readonly session: string;
}

/** The places among a node's children, first come first. Anything that is no place is left out. */
export function placesOf(children: readonly string[]): Place[] {
  const places = children.map(readPlace).filter((place) => place !== undefined);
  return places.sort((one, other) => order(one.sequence, other.sequence));
}

function readPlace(name: string): Place | undefined {
  const match = /^([0-9a-f]{16})-.*_(-?\d{10,})$/s.exec(name);
  if (match === null) return undefined;
  return { name, session: match[1] ?? "", sequence: Number(match[2]) };
}

/**
 * The server counts in 32 bits with a sign, and after 2147483647 comes -2147483648. Places that exist at the same time are
 * never two thousand million numbers apart, so the shorter way round tells who came first.
 */
function order(one: number, other: number): number {
  return (one - other) | 0;
}
