// Taking leases and giving them back: one script for all that one session asks in one turn, each decided on its own. The common
// path comes first: nobody has it, nobody waits, nobody watches. It reads everything at once and writes every grant at once,
// because each redis.call costs about as much as a small command. What is not common is left to the whole rule below it, which
// would give the same answer.

import { HEAD_START_MS } from "../contract.ts";
import { KEEP_MS, type Script, script } from "./script-library.ts";

/** Of those who are listed although they are free, how many are looked at when one more may join them. */
const LOOKED_AT = 4;

/** What takes the place of a record's closing brace: when it was granted, by the server's clock, as core/record.ts writes it. */
const ENDING = ',"grantedAtMs":%.0f}';

/**
 * A lease is named once at most: everything is read before anything is written. The counter is used while it is exact as a
 * number and not below the last token of the lease.
 */
const usual = `
local got = redis.call('MGET', '<base>token', '<base>watched', unpack(KEYS))
local counter, answers, open, writes, returned, ending = got[1] and tonumber(got[1]), {}, keys - 1
if got[3] and not got[2] and counter and counter % 1 == 0 then
  for index = 1, keys - 1 do
    local key, text, claim, state = KEYS[index + 1], got[index + 3], ARGV[index]
    if string.byte(claim) ~= 58 then
      state = text and string.sub(text, 1, 1)
      if (state == 'H' or state == 'K') and string.sub(text, 2, #claim + 1) == claim then
        if state == 'H' then redis.call('ZREM', '<base>held', key) end
        redis.call('SET', key, (state == 'H' and 'F' or 'L') .. claim, 'PX', '${KEEP_MS}')
        answers[index] = 'released'
        open = open - 1
      end
    else
      local last, from = '0', 1
      if text then state, last, from = string.match(text, '^([FL])(%d+)()') end
      -- Neither held nor with anybody queued, nor the same attempt as the last one.
      if last and counter >= tonumber(last) and counter < 9007199254740991
        and not (text and string.find(claim, string.sub(text, from), 1, true)) then
        counter = counter + 1
        if not writes then
          local time = redis.call('TIME')
          writes = {'<base>token', ''}
          ending = string.format('${ENDING}', time[1] * 1000 + math.floor(time[2] / 1000))
        end
        writes[2] = string.format('%.0f', counter)
        writes[#writes + 1] = key
        writes[#writes + 1] = (text and 'K' or 'H') .. writes[2] .. string.sub(claim, 1, -2) .. ending
        if state ~= 'L' then redis.call('ZADD', '<base>held', '0', key) end
        returned = returned or state == 'F'
        answers[index] = counter
        open = open - 1
      end
    end
  end
  if writes then redis.call('MSET', unpack(writes)) end
  if returned then
    local some = redis.call('ZRANDMEMBER', '<base>held', '${LOOKED_AT}')
    for index, text in ipairs(redis.call('MGET', unpack(some))) do
      if not text then redis.call('ZREM', '<base>held', some[index]) end
    end
  end
end
if open == 0 then return keys == 2 and answers[1] or answers end
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
  local left = redis.call('PTTL', KEYS[1])
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
  local counter = base .. 'token'
  -- A counter that is missing, or below a token that was granted, was lost: a new era.
  local last = redis.call('GET', counter)
  if not last then startEra(lease.token or '0')
  elseif lease.token and above(lease.token, last) then startEra(lease.token) end
  redis.call('INCR', counter)
  local token = redis.call('GET', counter)
  if first then redis.call('LREM', base .. 'q:' .. resource, 0, entry(session, attempt)) end
  lease.session, lease.last, lease.attempt, lease.token = session, session, attempt, token
  lease.record = string.sub(record, 1, -2) .. string.format('${ENDING}', now())
  save(resource, lease)
  redis.call('ZADD', base .. 'held', 0, key)
  tell(resource, 'held ' .. left)
  return token
end

local function release(key, claim)
  local token, length, from = string.match(claim, '^r?(%d+):(%d+):()')
  local resource, session = string.sub(key, #base + 3), string.sub(claim, from, from + length - 1)
  local lease = load(resource)
  if lease.session ~= session or lease.token ~= token or redis.call('EXISTS', KEYS[1]) == 0 then
    return 'notHeld'
  end
  free(resource, lease)
  return 'released'
end

for index = 1, keys - 1 do
  if not answers[index] then
    local claim = ARGV[index]
    local act = string.byte(claim) == 58 and grant or release
    -- One that fails must not take the answers of the others with it.
    local done, answer = pcall(act, KEYS[index + 1], claim, string.sub(ARGV[keys] or '', index, index) == 'q')
    answers[index] = done and answer or 'error ' .. (type(answer) == 'table' and answer.err or tostring(answer))
  end
end
return keys == 2 and answers[1] or answers
`;

/**
 * KEYS session, then the leases. ARGV a claim for each: of a grant `:<length>:<session><length>:<attempt><record>`, of a release
 * `<token>:<length>:<session><length>:<attempt>`, which is what the text of a lease begins with behind its state while this
 * session has it under this token (S5); without the attempt, where it is not known, `r<token>:<length>:<session>`. Where a grant
 * wants a place in the queue, one more argument: a letter for each claim, `q` for those that do. Answers with a text for each
 * lease, or a number that is the token.
 */
export const bundle: Script = script("grant or release", rule, usual);
