// Who is granted a resource that several attempts want. Every store with a queue follows this rule,
// in the language of its backend. `memory/` calls these functions and is the reference.
//
// 1. A resource is free if it has no holder, or if the session of its holder has expired or ended.
// 2. Whenever a request finds a resource free or frees it, the store hands it off in the same
//    atomic step: it grants the resource to the next waiter, with a new token. A request for a
//    grant first joins the queue itself. So a newcomer never overtakes a waiter that could be
//    granted.
// 3. The queue is ordered by rank, then by arrival. The next waiter is the first one whose session
//    is alive and not quiet. A session is quiet if it has not been renewed for `quietAfterMs`: its
//    process may be stuck, and a resource handed to it would stay unused. A quiet waiter keeps its
//    place. The session that sends the request is never quiet.
// 4. If a release names a preferred holder, the first waiter of that holder comes before the
//    others.
// 5. If every waiter is quiet, the resource stays free. The first of them that renews its session
//    is granted it then, or a newcomer before that.
//
// This is safe because a lease lives exactly as long as its session. The holder of a waiting
// session already has a deadline for it, so a grant needs no deadline of its own.
//
// On etcd and ZooKeeper the queue is the lock: the oldest key or node holds the resource, and its
// revision is the token. A quiet waiter cannot be skipped there, because it would come back with a
// token below that of its successor. Its key disappears with its session. A waiter that finds
// itself oldest, although another one has a lower rank or is preferred, gives up its key and
// creates a new one behind the others.
//
// On backends that do not report the expiry of a session, the first waiters check when the time of
// the holder is up. Every renewal of a waiter hands off too (rule 2), so a waiter that missed
// everything is late by one renewal interval.

/**
 * How many of the first waiters check whether the holder has expired, on backends that do not
 * report it. One would be enough. The second one covers a waiter that dies together with the
 * holder.
 */
export const EXPIRY_WATCHERS = 2;

/** Where a waiter with this rank enters the queue. */
export function findPlace(queue: readonly { readonly rank: number }[], rank: number): number {
  const next = queue.findIndex((waiter) => waiter.rank > rank);
  return next < 0 ? queue.length : next;
}

/**
 * The waiter to which a free resource is handed off, if there is one. `queue` is in order.
 * `mayBeGranted`: its session is alive and not quiet.
 */
export function findNext<Waiter extends { readonly holderId: string }>(
  queue: readonly Waiter[],
  mayBeGranted: (waiter: Waiter) => boolean,
  preferred?: string | undefined,
): Waiter | undefined {
  const isPreferred = ({ holderId }: Waiter): boolean => holderId === preferred;
  return (
    (preferred === undefined ? undefined : queue.filter(isPreferred).find(mayBeGranted)) ??
    queue.find(mayBeGranted)
  );
}
