// Finds the known name that a mistyped one most likely stands for. Used in messages about unknown
// options and commands.

/**
 * The known name with the fewest differing letters, ignoring case. Undefined if no name is close
 * enough to be a typo.
 */
export function findNearest(given: string, names: readonly string[]): string | undefined {
  const typed = given.toLowerCase();
  let best: { readonly name: string; readonly distance: number } | undefined;
  for (const name of names) {
    const distance = editDistance(typed, name.toLowerCase());
    if (best === undefined || distance < best.distance) best = { name, distance };
  }
  return best === undefined || best.distance > Math.max(2, given.length / 3)
    ? undefined
    : best.name;
}

/** How many letters must be inserted, deleted or replaced to turn one word into the other. */
function editDistance(one: string, other: string): number {
  let row = Array.from({ length: other.length + 1 }, (_, index) => index);
  for (const [index, letter] of [...one].entries()) {
    const next = [index + 1];
    for (let column = 0; column < other.length; column += 1) {
      const change = (row[column] ?? 0) + (letter === other[column] ? 0 : 1);
      next.push(Math.min(change, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1));
    }
    row = next;
  }
  return row[other.length] ?? 0;
}
