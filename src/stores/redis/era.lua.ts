// Starts a new era of tokens (core/era.ts) when the server may have lost grants, in Lua.

import { ERA_GAP } from "../../core/era.ts";

/**
 * startOfEra() of core/era.ts. A counter above 2^53 is not exact as a Lua number, so Redis itself
 * raises it.
 */
export const START_ERA: string = `
local function startEra(last)
  local time = redis.call('TIME')
  local clock, known = time[1] * 1000000 + time[2], tonumber(last)
  if known > clock then
    local part = ${ERA_GAP / 4n} + math.floor(${(3n * ERA_GAP ** 2n) / 4n} / (${ERA_GAP} + known - clock))
    redis.call('SET', '<base>token', last)
    redis.call('INCRBY', '<base>token', part)
  else
    local above = known + ${ERA_GAP} + math.floor((clock - known) * 7 / 8)
    redis.call('SET', '<base>token', string.format('%.0f', math.max(clock, above)))
  end
  return redis.call('GET', '<base>token')
end
`;

/**
 * A server process that does not have the script may have lost grants: it was restarted, or it was
 * a replica. The script is then sent as text, with one more key, and starts an era if another
 * process started the current one, in the same atomic step as the rest of the script. A server that
 * has the script has done this, because only a text that was run with the key is ever sent. Before
 * 7.0 a server keeps its scripts over a restart and passes them to replicas; there every call has
 * the key.
 */
export const VERIFY_ERA: string = `
if KEYS[2] then
  local info, server = redis.pcall('INFO', 'server'), 'unknown'
  if type(info) == 'string' then server = string.match(info, 'run_id:(%x+)') or server end
  if server == 'unknown' or string.match(redis.call('GET', KEYS[2]) or '', '^%x+') ~= server then
    redis.call('SET', KEYS[2], server .. ' ' .. startEra(redis.call('GET', '<base>token') or '0'))
  end
end
`;
