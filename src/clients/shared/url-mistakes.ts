// Names the likely mistake in a text that should be the URL of a store. It shows no part of the text, because a password
// may be anywhere in it.

const SERVER_SCHEMES =
  "postgresql|postgres|rediss\\+sentinel|redis\\+sentinel|rediss|redis|etcds|etcd|zookeeper";

/** In this order: an exported variable may also have quotes. */
const MISTAKES: readonly (readonly [RegExp, (...found: string[]) => string])[] = [
  [/^\s|\s$/, () => "The text begins or ends with a space or a line break. Remove it."],
  [
    /^(?:export\s+)?[A-Za-z_]\w*\s*=/,
    () => 'The text begins with the name of a variable. Pass only the text after the "=".',
  ],
  [
    /^["'`]|["'`]$/,
    () =>
      "The text begins or ends with a quotation mark. Remove it. Some tools, such as docker --env-file, keep the quotes of a file.",
  ],
  [
    new RegExp(`^(${SERVER_SCHEMES})//`, "i"),
    (_, scheme = "") => `The colon is missing after the scheme. Write ${scheme.toLowerCase()}://.`,
  ],
  [
    new RegExp(`^(${SERVER_SCHEMES}):(?!//)`, "i"),
    (_, scheme = "") =>
      `The scheme is not followed by two slashes. Write ${scheme.toLowerCase()}://user:password@host.`,
  ],
  [
    /^[^A-Za-z].*@/s,
    () => "The text has no scheme. Begin it with redis://, postgres://, etcd:// or zookeeper://.",
  ],
];

/** What to change, in sentences. Undefined if no mistake is found. */
export function mistakeIn(target: unknown): string | undefined {
  if (target instanceof URL) return "This is a URL object. Pass its text: url.href.";
  if (typeof target !== "string") return `The value is not a string: got ${kindOf(target)}.`;
  for (const [pattern, advice] of MISTAKES) {
    const found = pattern.exec(target);
    if (found !== null) return advice(...found);
  }
  return undefined;
}

function kindOf(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  const kind = typeof value;
  return `${/^[aeiou]/.test(kind) ? "an" : "a"} ${kind}`;
}
