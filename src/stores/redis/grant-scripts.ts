// Taking leases and giving them back: one script for all that one session asks in one turn, each decided on its own. The common
// path comes first: nobody has it, nobody waits, nobody watches. It reads everything at once and writes every grant at once,
// because each redis.call costs about as much as a small command. What is not common is left to the whole rule below it, which
// would give the same answer.

import { HEAD_START_MS } from "../store.ts";
import { KEEP_MS, type Script, script } from "./script-library.ts";

/**
 * What is asked of one lease, as a letter: `g` a grant, `q` a grant or a place in the queue, `r` a release. With it goes a claim:
 * of a grant `:<length>:<session><length>:<attempt><record>`, of a release `<token>:<length>:<session>`. Behind its state, the
 * text of a lease begins with the latter while this session has it under this token (S5).
 */
export type Act = "g" | "q" | "r";

/** A lease is named once at most: everything is read before anything is written. A counter is used while it is exact as a number. */
const usual = `
local got = redis.call('MGET', unpack(KEYS, 2))
local counter, answers, open, writes, added, removed = tonumber(got[2] or 0), {}, #KEYS - 4, {}, {}, {}
if got[1] and not got[3] and counter and counter % 1 == 0 then
  for index = 1, #KEYS - 4 do
    local key, text, claim = KEYS[index + 4], got[index + 3], ARGV[index + 1]
    if string.sub(ARGV[1], index, index) == 'r' then
      if text and string.sub(text, 1, 1) == 'H' and string.sub(text, 2, #claim + 1) == claim then
        local length, from = string.match(text, '^(%d+):()', #claim + 2)
        redis.call('SET', key, 'F' .. string.sub(text, 2, from + length - 1), 'PX', ${KEEP_MS})
        removed[#removed + 1] = key
        answers[index] = 'released'
        open = open - 1
      end
    else
      local last, from = '0', 1
      if text then last, from = string.match(text, '^F(%d+)()') end
      -- Neither held nor with anybody queued, nor the same attempt as the last one.
      if last and counter >= tonumber(last) and counter < 9007199254740991
        and not (text and string.find(claim, string.sub(text, from), 1, true)) then
        counter = counter + 1
        writes[#writes + 1] = key
        writes[#writes + 1] = 'H' .. string.format('%.0f', counter) .. claim
        added[#added + 1] = 0
        added[#added + 1] = key
        answers[index] = counter
        open = open - 1
      end
    end
  end
  if removed[1] then redis.call('ZREM', KEYS[1], unpack(removed)) end
  if added[1] then
    redis.call('MSET', KEYS[3], string.format('%.0f', counter), unpack(writes))
    redis.call('ZADD', KEYS[1], unpack(added))
  end
end
if open == 0 then return answers end
`;

const rule = `
-- Compares tokens as text: more digits, or the same number of digits and larger.
local function above(one, other)
  return #one > #other or (#one == #other and one > other)
end

local function grant(key, claim, queues)
  local length, from = string.match(claim, '^:(%d+):()')
  local session = string.sub(claim, from, from + length - 1)
  length, from = string.match(claim, '^(%d+):()', from + length)
  local attempt = string.sub(claim, from, from + length - 1)
  local record = string.sub(claim, from + length)
  local resource = string.sub(key, #base + 3)
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
    if queues then
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
  redis.call('INCR', KEYS[3])
  local token = redis.call('GET', KEYS[3])
  if lease.token and not above(token, lease.token) then
    redis.call('SET', KEYS[3], lease.token)
    redis.call('INCR', KEYS[3])
    token = redis.call('GET', KEYS[3])
  end
  if first then redis.call('LREM', base .. 'q:' .. resource, 0, entry(session, attempt)) end
  lease.session, lease.last, lease.attempt, lease.token, lease.record = session, session, attempt, token, record
  save(resource, lease)
  redis.call('ZADD', KEYS[1], 0, key)
  tell(resource, 'held ' .. left)
  return token
end

local function release(key, claim)
  local token, from = string.match(claim, '^(%d+):%d+:()')
  local resource, session = string.sub(key, #base + 3), string.sub(claim, from)
  local lease = load(resource)
  if lease.session ~= session or lease.token ~= token or redis.call('EXISTS', KEYS[2]) == 0 then
    return 'notHeld'
  end
  free(resource, lease)
  return 'released'
end

for index = 1, #KEYS - 4 do
  if not answers[index] then
    local act = string.sub(ARGV[1], index, index)
    -- One that fails must not take the answers of the others with it.
    local done, answer = pcall(act == 'r' and release or grant, KEYS[index + 4], ARGV[index + 1], act == 'q')
    answers[index] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or tostring(answer))
  end
end
return answers
`;

/** KEYS held, session, counter, watched, then the leases. ARGV the acts, one letter a lease, then the claim of each. */
export const bundle: Script = script("bundle", rule, usual);
