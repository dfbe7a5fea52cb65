// The Lua scripts of the guard. Each compares the token, raises the highest and writes; Redis runs
// a script atomically. Tokens are compared as text of 39 digits, because a Lua number is a double
// and cannot distinguish 2^53 + 1 from 2^53.
//
// The highest is raised before the write. Redis keeps the effects of a script that fails halfway,
// so a part of the write may remain, and its token must then count as admitted.

// biome-ignore lint/style/noRestrictedImports: Redis names scripts by SHA-1; not random
import { createHash } from "node:crypto";

export interface Script {
  readonly text: string;
  /** The name of the script for EVALSHA. */
  readonly sha: string;
}

/** The first words of our own error replies. The highest token follows. */
export const STALE = "TENURESTALE";
export const CORRUPT = "TENURECORRUPT";

/**
 * On one line, so that an error in the user's script has the right line number. KEYS[1] is the key
 * of the highest token, ARGV[1] the offered token.
 */
const COMPARE_AND_ADVANCE = [
  "local highest = redis.call('GET', KEYS[1])",
  // An equal token is the usual case and needs only this comparison.
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
  /** Any single command: ARGV[2], then the keys from KEYS[2] on, then the rest of ARGV. */
  command: script(`${COMPARE_AND_ADVANCE}
local words = {ARGV[2]}
for index = 2, #KEYS do words[index] = KEYS[index] end
for index = 3, #ARGV do words[#words + 1] = ARGV[index] end
return redis.call(unpack(words))`),
  /** SET, the most frequent command, without building a table. */
  set: script(`${COMPARE_AND_ADVANCE} return redis.call('SET', KEYS[2], ARGV[2])`),
  /**
   * Returns the counter as text. An integer reply would become a Lua number, and counters reach
   * 2^63.
   */
  incr: script(
    `${COMPARE_AND_ADVANCE} redis.call('INCRBY', KEYS[2], ARGV[2]) return redis.call('GET', KEYS[2])`,
  ),
  /** Deletes the highest if it is still ARGV[1]. Returns 0 if no highest is left. */
  reset: script(
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end return redis.call('EXISTS', KEYS[1])",
  ),
};

/**
 * Puts the comparison before the user's script, which sees its own KEYS and ARGV and returns as it
 * would alone.
 */
export function fenced(lua: string): Script {
  return script(
    `${COMPARE_AND_ADVANCE} table.remove(KEYS, 1) table.remove(ARGV, 1) ` +
      `local function work() ${lua}\nend return work()`,
  );
}
