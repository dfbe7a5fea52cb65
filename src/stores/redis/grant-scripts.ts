// Taking a lease and giving it back, each with a common path that comes first: nobody has it, nobody waits, nobody watches. What
// is not common falls through to the whole rule below it, which would give the same answer.

import { HEAD_START_MS } from "../store.ts";
import { KEEP_MS, type Script, script } from "./script-library.ts";

/**
 * KEYS lease, session, counter, held, watched. ARGV claim (`:<length>:<session><length>:<attempt><record>`) and, for whoever wants
 * a place in the queue, one more. The common path: nobody has it, nobody waits, and the counter is both exact as a Lua
 * number and above the last token; it answers with that number alone.
 */
export const grant: Script = script(
  "grant",
  `
local length, from = string.match(ARGV[1], '^:(%d+):()')
local session = string.sub(ARGV[1], from, from + length - 1)
length, from = string.match(ARGV[1], '^(%d+):()', from + length)
local attempt = string.sub(ARGV[1], from, from + length - 1)
local record = string.sub(ARGV[1], from + length)
local resource = string.sub(KEYS[1], #base + 3)

-- Compares tokens as text: more digits, or the same number of digits and larger.
local function above(one, other)
  return #one > #other or (#one == #other and one > other)
end

local left = redis.call('PTTL', KEYS[2])
if left < 0 then return 'gone' end
local lease = load(resource)
if lease.session and lease.session ~= session and not lives(lease.session) then free(resource, lease) end
local holder = lease.session
if lease.attempt == attempt then
  if holder ~= session then return 'ended' end
  -- Written again: WAIT is documented to wait only for what its own connection wrote.
  save(resource, lease)
  return lease.token
end
local first
if not holder then first = head(resource, lease) end
if holder or (first and first ~= attempt and now() < lease.freed + ${HEAD_START_MS}) then
  if ARGV[2] then
    local queue, place = base .. 'q:' .. resource, entry(session, attempt)
    if not redis.call('LPOS', queue, place) then redis.call('RPUSH', queue, place) end
    redis.call('PEXPIRE', queue, ${KEEP_MS} + (holder and redis.call('PTTL', base .. 's:' .. holder) or 0))
    if not lease.queued then
      lease.queued = true
      save(resource, lease)
    end
  end
  return 'busy ' .. (holder and lease.record or '')
end
if not raised then redis.call('INCR', KEYS[3]) end
local token = redis.call('GET', KEYS[3])
if lease.token and not above(token, lease.token) then
  redis.call('SET', KEYS[3], lease.token)
  redis.call('INCR', KEYS[3])
  token = redis.call('GET', KEYS[3])
end
if first then redis.call('LREM', base .. 'q:' .. resource, 0, entry(session, attempt)) end
lease.session, lease.last, lease.attempt, lease.token, lease.record = session, session, attempt, token, record
save(resource, lease)
redis.call('ZADD', KEYS[4], 0, KEYS[1])
tell(resource, 'held ' .. left)
return token
`,
  `
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[5])
local text, raised, last, from = got[1], false, '0', 1
if text then last, from = string.match(text, '^F(%d+)()') end
-- Not free without anybody queued; or the same attempt as the last one.
if got[2] and not got[3] and last and not (text and string.find(ARGV[1], string.sub(text, from), 1, true)) then
  local token = redis.call('INCR', KEYS[3])
  raised = true
  if token > tonumber(last) and token < 9007199254740992 then
    redis.call('SET', KEYS[1], 'H' .. string.format('%.0f', token) .. ARGV[1])
    redis.call('ZADD', KEYS[4], 0, KEYS[1])
    return token
  end
end
`,
);

/**
 * KEYS lease, session, held, watched. ARGV claim (`H<token>:<length>:<session>`): what the lease's text begins with while this
 * session has it under this token and nobody waits (S5).
 */
export const release: Script = script(
  "release",
  `
local token, from = string.match(ARGV[1], '^H(%d+):%d+:()')
local resource, session = string.sub(KEYS[1], #base + 3), string.sub(ARGV[1], from)
local lease = load(resource)
if lease.session ~= session or lease.token ~= token or redis.call('EXISTS', KEYS[2]) == 0 then
  return 'notHeld'
end
free(resource, lease)
return 'released'
`,
  `
local got = redis.call('MGET', KEYS[1], KEYS[2], KEYS[4])
local text = got[1]
if text and got[2] and not got[3] and string.sub(text, 1, #ARGV[1]) == ARGV[1] then
  local length, from = string.match(text, '^(%d+):()', #ARGV[1] + 1)
  redis.call('SET', KEYS[1], 'F' .. string.sub(text, 2, from + length - 1), 'PX', ${KEEP_MS})
  redis.call('ZREM', KEYS[3], KEYS[1])
  return 'released'
end
`,
);
