// Reads a list page by page. Each page names where the next one starts, and that name comes from
// the backend.

import { StoreUnusableError } from "./errors.ts";

/**
 * Yields every page. A start that was used before is an error: a name that is not valid UTF-8 in
 * the backend changes when it is sent back, and the same pages could then repeat for ever.
 */
export async function* everyPage<P extends { readonly next?: string | undefined }>(
  read: (after: string | undefined) => Promise<P>,
): AsyncGenerator<P, void, undefined> {
  const starts = new Set<string | undefined>();
  let after: string | undefined;
  do {
    starts.add(after);
    const page = await read(after);
    yield page;
    after = page.next;
    if (starts.has(after) && after !== undefined) {
      throw new StoreUnusableError(
        `The list of leases repeats itself from ${JSON.stringify(after.slice(0, 80))} on: the store contains names that are not Tenure's. Delete them.`,
      );
    }
  } while (after !== undefined);
}
