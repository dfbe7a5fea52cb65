// The atomic step in the server's own language: compare, advance, write, all in one script, which Redis runs without a
// break. Tokens are compared as text of 39 digits: a Lua number is a double and would take 2^53 + 1 for 2^53.
//
// The highest is advanced before the write: a script that fails in the middle keeps what it did so far, so a part of the
// write may stand, and then the token has been admitted.

// biome-ignore lint/style/noRestrictedImports: SHA-1 is the name that Redis gives a script; nothing is drawn here
import { createHash } from "node:crypto";

export interface Script {
  readonly text: string;
  /** What EVALSHA calls it by. */
  readonly sha: string;
}

/** The words that our own refusals begin with, followed by the highest. */
export const STALE = "TENURESTALE";
export const CORRUPT = "TENURECORRUPT";

/**
 * In one line, so that an error in the user's script behind it names the line the user knows. KEYS[1] is the key of the
 * highest, ARGV[1] the token.
 */
const COMPARE_AND_ADVANCE = [
  "local highest = redis.call('GET', KEYS[1])",
  // Equal is the common case, and is over with one comparison.
  "if highest ~= ARGV[1] then",
  `if highest and (#highest ~= 39 or string.find(highest, '%D')) then return redis.error_reply('${CORRUPT} ' .. highest) end`,
  `if highest and ARGV[1] < highest then return redis.error_reply('${STALE} ' .. highest) end`,
  "redis.call('SET', KEYS[1], ARGV[1])",
  "end",
].join(" ");

function script(text: string): Script {
  return { text, sha: createHash("sha1").update(text).digest("hex") };
}

export const scripts: Readonly<Record<"advance" | "command" | "set" | "incr" | "reset", Script>> = {
  advance: script(`${COMPARE_AND_ADVANCE} return 1`),
  /** Any one command: ARGV[2], then the keys behind the first, then the rest of ARGV. */
  command: script(`${COMPARE_AND_ADVANCE}
local words = {ARGV[2]}
for index = 2, #KEYS do words[index] = KEYS[index] end
for index = 3, #ARGV do words[#words + 1] = ARGV[index] end
return redis.call(unpack(words))`),
  /** SET alone, the most frequent, without building a table. */
  set: script(`${COMPARE_AND_ADVANCE} return redis.call('SET', KEYS[2], ARGV[2])`),
  /** Read back as text: an integer reply becomes a Lua number on its way, and counters reach 2^63. */
  incr: script(
    `${COMPARE_AND_ADVANCE} redis.call('INCRBY', KEYS[2], ARGV[2]) return redis.call('GET', KEYS[2])`,
  ),
  /** Deletes the highest if it is still ARGV[1]. Returns 0 if no highest is left. */
  reset: script(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return redis.call('EXISTS', KEYS[1])",
  ),
};

/** The user's own script behind the comparison: it sees its own KEYS and ARGV, and answers as it would alone. */
export function fenced(lua: string): Script {
  return script(
    `${COMPARE_AND_ADVANCE} table.remove(KEYS, 1) table.remove(ARGV, 1) ` +
      `local function work() ${lua}\nend return work()`,
  );
}
