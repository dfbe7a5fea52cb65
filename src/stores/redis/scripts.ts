// What the server does, in its own language: each request is one script and so one atomic step. A session is a key with
// a ttl, and a lease holds while the key of its session exists. Tokens are never Lua numbers, which are exact only up to
// 2^53: they are read back as text. Every answer is a list of texts. How a lease is stored: script-library.ts.

import { HEAD_START_MS } from "../store.ts";
import { KEEP_MS, LIBRARY } from "./script-library.ts";

export interface Script {
  readonly name: string;
  readonly text: string;
}

function script(name: string, body: string): Script {
  return { name, text: `-- tenure: ${name}\n${LIBRARY}\n${body.trim()}\n` };
}

/**
 * KEYS session. ARGV base, holder, ttl. The key lives one millisecond longer than the ttl: Redis counts whole
 * milliseconds, and a slewed clock may run fast; the store may be late, never early (S3). Also frees a few leases of
 * dead sessions, so that what nobody asks for does not pile up.
 */
const open = script(
  "open",
  `
redis.call('HSET', KEYS[1], 'h', ARGV[2], 't', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[3] + 1)
for _, resource in ipairs(redis.call('ZRANDMEMBER', base .. 'held', 8)) do
  local lease = load(resource)
  if not lease.session then redis.call('ZREM', base .. 'held', resource)
  elseif not lives(lease.session) then free(resource, lease) end
end
return {'opened', ARGV[3]}
`,
);

/**
 * KEYS counter, held, session, lease, queue. ARGV base, session, resource, attempt, record, queue or "".
 * `above` compares tokens as text: more digits, or the same number of digits and larger.
 */
const grant = script(
  "grant",
  `
local function above(one, other)
  return #one > #other or (#one == #other and one > other)
end

local session, resource, attempt = ARGV[2], ARGV[3], ARGV[4]
local left = redis.call('PTTL', KEYS[3])
if left < 0 then return {'gone'} end
local lease = load(resource)
if lease.session and lease.session ~= session and not lives(lease.session) then free(resource, lease) end
local holder = lease.session
if lease.attempt == attempt then
  if holder ~= session then return {'ended'} end
  -- Written again: WAIT is documented to wait only for what its own connection wrote.
  save(resource, lease)
  return {'granted', lease.token}
end
local first
if not holder then first = head(resource, lease) end
if holder or (first and first ~= attempt and now() < lease.freed + ${HEAD_START_MS}) then
  if ARGV[6] ~= '' then
    local place = entry(session, attempt)
    if not redis.call('LPOS', KEYS[5], place) then redis.call('RPUSH', KEYS[5], place) end
    redis.call('PEXPIRE', KEYS[5], ${KEEP_MS} + (holder and redis.call('PTTL', base .. 's:' .. holder) or 0))
    if not lease.queued then
      lease.queued = true
      save(resource, lease)
    end
  end
  return {'busy', holder and lease.record or ''}
end
redis.call('INCR', KEYS[1])
local token = redis.call('GET', KEYS[1])
if lease.token and not above(token, lease.token) then
  redis.call('SET', KEYS[1], lease.token)
  redis.call('INCR', KEYS[1])
  token = redis.call('GET', KEYS[1])
end
if first then redis.call('LREM', KEYS[5], 0, entry(session, attempt)) end
lease.session, lease.attempt, lease.token, lease.record = session, attempt, token, ARGV[5]
save(resource, lease)
redis.call('ZADD', KEYS[2], 0, resource)
tell(resource, 'held ' .. left)
return {'granted', token}
`,
);

/** KEYS session, revoked. ARGV base, session, then resource and attempt of each to withdraw. */
const renew = script(
  "renew",
  `
local ttl = redis.call('HGET', KEYS[1], 't')
if not ttl then return {'gone'} end
redis.call('PEXPIRE', KEYS[1], ttl + 1)
redis.call('PEXPIRE', KEYS[2], ttl + 1)
for index = 3, #ARGV, 2 do withdraw(ARGV[2], ARGV[index], ARGV[index + 1]) end
local answer = {'renewed', ttl}
for _, text in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do answer[#answer + 1] = text end
return answer
`,
);

/** KEYS session, lease. ARGV base, session, resource, token. */
const release = script(
  "release",
  `
local lease = load(ARGV[3])
if lease.session ~= ARGV[2] or lease.token ~= ARGV[4] or redis.call('EXISTS', KEYS[1]) == 0 then
  return {'notHeld'}
end
free(ARGV[3], lease)
return {'released'}
`,
);

/** KEYS lease, queue. ARGV base, session, resource, attempt. */
const withdraw = script(
  "withdraw",
  `
withdraw(ARGV[2], ARGV[3], ARGV[4])
return {'withdrawn'}
`,
);

/** KEYS session, revoked. ARGV base, session, then the resources that it may hold, whose waiters are told. */
const end = script(
  "end",
  `
redis.call('DEL', KEYS[1], KEYS[2])
for index = 3, #ARGV do
  local lease = load(ARGV[index])
  if lease.session == ARGV[2] then free(ARGV[index], lease) end
end
return {'ended'}
`,
);

/** KEYS lease. ARGV base, resource, token. The renewals of the session tell its holder. */
const revoke = script(
  "revoke",
  `
local lease = load(ARGV[2])
if not lives(lease.session) or lease.token ~= ARGV[3] then return {'notHeld'} end
local revoked = base .. 'v:' .. lease.session
redis.call('RPUSH', revoked, ARGV[2], ARGV[3])
redis.call('PEXPIRE', revoked, redis.call('PTTL', base .. 's:' .. lease.session) + 1)
free(ARGV[2], lease)
return {'revoked'}
`,
);

/** KEYS lease, queue. ARGV base, resource, attempt. Answers in how many ms to look again; 0: ask for the grant. */
const look = script(
  "look",
  `
local lease = load(ARGV[2])
if lease.session then
  local left = redis.call('PTTL', base .. 's:' .. lease.session)
  if left >= 0 then
    redis.call('PEXPIRE', KEYS[2], left + ${KEEP_MS})
    return {tostring(left + 2)}
  end
  free(ARGV[2], lease)
end
local first = head(ARGV[2], lease)
if not first or first == ARGV[3] then return {'0'} end
return {string.format('%.0f', math.max(0, lease.freed + ${HEAD_START_MS} - now()))}
`,
);

/** KEYS lease. ARGV base, resource. */
const read = script(
  "read",
  `
local lease = load(ARGV[2])
local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
if left < 0 then return {} end
return {lease.token, lease.record, tostring(left)}
`,
);

/**
 * KEYS held. ARGV base, from (as ZRANGEBYLEX takes it), prefix, limit. No name in UTF-8 has a byte 255. Answers with the last name it came to, or "" at the
 * end, then resource, token, record and time left of each lease that is held.
 */
const list = script(
  "list",
  `
local to = ARGV[3] == '' and '+' or '(' .. ARGV[3] .. string.char(255)
local names = redis.call('ZRANGEBYLEX', KEYS[1], ARGV[2], to, 'LIMIT', 0, ARGV[4] + 1)
local last = ''
if #names > tonumber(ARGV[4]) then
  names[#names] = nil
  last = names[#names]
end
local answer = {last}
for _, resource in ipairs(names) do
  local lease = load(resource)
  local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
  if left >= 0 then
    for _, text in ipairs({resource, lease.token, lease.record, tostring(left)}) do answer[#answer + 1] = text end
  elseif lease.session then
    free(resource, lease)
  else
    redis.call('ZREM', KEYS[1], resource)
  end
end
return answer
`,
);

/** KEYS probe. ARGV base. Whether this user may write here and publish here. */
const probe = script(
  "probe",
  `
redis.call('SET', KEYS[1], '1', 'PX', 1000)
tell('', 'probe')
return {'ok'}
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
  probe,
};
