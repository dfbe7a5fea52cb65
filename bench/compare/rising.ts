// Whether the values that a library gave out with its grants rose from each to the next, in words for a row.

/** "yes: lease.token, 9 of 9 times higher". */
export function verdict(values: readonly unknown[], given = "", but?: string): string {
  if (values.every((value) => value === undefined || value === null))
    return "no: it gives out none";
  const times = values.length - 1;
  const higher = values.filter((value, index) => index > 0 && isHigher(value, values[index - 1]));
  const answer = higher.length === times ? "yes" : "no";
  const seen = `${answer}: ${given}, ${higher.length} of ${times} times higher`;
  return but === undefined ? seen : `${seen}; ${but}`;
}

function isHigher(value: unknown, than: unknown): boolean {
  const [one, other] = [String(value), String(than)];
  const areNumbers = [one, other].every((text) => /^\d+$/.test(text));
  return areNumbers ? BigInt(one) > BigInt(other) : one > other;
}
