// What the server does, in its own language: each request is one script and so one atomic step. A session is a key with
// a ttl, and a lease holds while the key of its session exists. Tokens are never Lua numbers, which are exact only up to
// 2^53, unless they are below that. An answer is a text or a list of texts. How a lease is stored: script-library.ts.

import { HEAD_START_MS } from "../store.ts";
import { KEEP_MS, LIBRARY } from "./script-library.ts";

export interface Script {
  readonly name: string;
  readonly text: string;
}

/** `usual` is the common path: it returns, or leaves everything to the body. */
function script(name: string, body: string, usual = ""): Script {
  return { name, text: `-- tenure: ${name}\n${usual.trim()}\n${LIBRARY}\n${body.trim()}\n` };
}

/**
 * KEYS session, held. ARGV holder, ttl. The key lives one millisecond longer than the ttl: Redis counts whole
 * milliseconds, and a slewed clock may run fast; the store may be late, never early (S3). Also frees a few leases of
 * dead sessions, so that what nobody asks for does not pile up.
 */
const open = script(
  "open",
  `
redis.call('SET', KEYS[1], ARGV[2] .. ' ' .. ARGV[1], 'PX', ARGV[2] + 1)
for _, key in ipairs(redis.call('ZRANDMEMBER', KEYS[2], 8)) do
  local resource = string.sub(key, #base + 3)
  local lease = load(resource)
  if not lease.session then redis.call('ZREM', KEYS[2], key)
  elseif not lives(lease.session) then free(resource, lease) end
end
return {'opened', ARGV[2]}
`,
);

/**
 * KEYS lease, session, counter, held, watched. ARGV claim (`:<length>:<session><length>:<attempt><record>`) and, for whoever wants
 * a place in the queue, one more. The common path: nobody has it, nobody waits, and the counter is both exact as a Lua
 * number and above the last token; it answers with that number alone.
 */
const grant = script(
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

/** KEYS session, revoked. ARGV session, then resource and attempt of each to withdraw. */
const renew = script(
  "renew",
  `
local session = redis.call('GET', KEYS[1])
if not session then return {'gone'} end
local ttl = string.match(session, '^%d+')
redis.call('PEXPIRE', KEYS[1], ttl + 1)
redis.call('PEXPIRE', KEYS[2], ttl + 1)
for index = 2, #ARGV, 2 do withdraw(ARGV[1], ARGV[index], ARGV[index + 1]) end
local answer = {'renewed', ttl}
for _, text in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do answer[#answer + 1] = text end
return answer
`,
);

/**
 * KEYS lease, session, held, watched. ARGV claim (`H<token>:<length>:<session>`): what the lease's text begins with while this
 * session has it under this token and nobody waits (S5).
 */
const release = script(
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

/** KEYS lease. ARGV session, resource, attempt. */
const withdraw = script(
  "withdraw",
  `
withdraw(ARGV[1], ARGV[2], ARGV[3])
return 'withdrawn'
`,
);

/** KEYS session, revoked. ARGV session, then the resources that it may hold, whose waiters are told. */
const end = script(
  "end",
  `
redis.call('DEL', KEYS[1], KEYS[2])
for index = 2, #ARGV do
  local lease = load(ARGV[index])
  if lease.session == ARGV[1] then free(ARGV[index], lease) end
end
return 'ended'
`,
);

/** KEYS lease. ARGV resource, token. The renewals of the session tell its holder. */
const revoke = script(
  "revoke",
  `
local lease = load(ARGV[1])
if not lives(lease.session) or lease.token ~= ARGV[2] then return 'notHeld' end
local revoked = base .. 'v:' .. lease.session
redis.call('RPUSH', revoked, ARGV[1], ARGV[2])
redis.call('PEXPIRE', revoked, redis.call('PTTL', base .. 's:' .. lease.session) + 1)
free(ARGV[1], lease)
return 'revoked'
`,
);

/**
 * KEYS lease, queue. ARGV resource, attempt. Answers in how many ms to look again; 0: ask for the grant. Who looks at a held
 * lease waits for a message, also without a place in the queue: that is noted, because a release tells nobody otherwise.
 */
const look = script(
  "look",
  `
local lease = load(ARGV[1])
if lease.session then
  local left = redis.call('PTTL', base .. 's:' .. lease.session)
  if left >= 0 then
    redis.call('PEXPIRE', KEYS[2], left + ${KEEP_MS})
    if not lease.queued then
      lease.queued = true
      save(ARGV[1], lease)
    end
    return tostring(left + 2)
  end
  free(ARGV[1], lease)
end
local first = head(ARGV[1], lease)
if not first or first == ARGV[2] then return '0' end
return string.format('%.0f', math.max(0, lease.freed + ${HEAD_START_MS} - now()))
`,
);

/** KEYS lease. ARGV resource. */
const read = script(
  "read",
  `
local lease = load(ARGV[1])
local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
if left < 0 then return {} end
return {lease.session, lease.token, lease.record, tostring(left)}
`,
);

/**
 * KEYS held. ARGV from and to (as ZRANGEBYLEX takes them), limit. Answers with the last name it came to, or "" at the end, then
 * resource, session, token, record and time left of each lease that is held.
 */
const list = script(
  "list",
  `
local keys = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3] + 1)
local last = ''
if #keys > tonumber(ARGV[3]) then
  keys[#keys] = nil
  last = string.sub(keys[#keys], #base + 3)
end
local answer = {last}
for _, key in ipairs(keys) do
  local resource = string.sub(key, #base + 3)
  local lease = load(resource)
  local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
  if left >= 0 then
    for _, text in ipairs({resource, lease.session, lease.token, lease.record, tostring(left)}) do
      answer[#answer + 1] = text
    end
  elseif lease.session then
    free(resource, lease)
  else
    redis.call('ZREM', KEYS[1], key)
  end
end
return answer
`,
);

/** KEYS watched. ARGV ttl. While the key is there, every grant and release is told. */
const watch = script(
  "watch",
  `
redis.call('SET', KEYS[1], '1', 'PX', ARGV[1])
return 'watched'
`,
);

/** KEYS probe. Whether this user may write here and publish here. */
const probe = script(
  "probe",
  `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
tell('', 'probe')
return 'ok'
`,
);

type Name =
  | "open"
  | "grant"
  | "renew"
  | "release"
  | "withdraw"
  | "end"
  | "revoke"
  | "look"
  | "read"
  | "list"
  | "watch"
  | "probe";

export const scripts: Readonly<Record<Name, Script>> = {
  open,
  grant,
  renew,
  release,
  withdraw,
  end,
  revoke,
  look,
  read,
  list,
  watch,
  probe,
};
