// What the server does, in its own language: each request is one script and so one atomic step. A session is a key with
// a ttl, and a lease holds while the key of its session exists. Tokens are never Lua numbers, which are exact only up to
// 2^53, unless they are below that. An answer is a text or a list of texts. How a lease is stored:
// script-library.ts; how one is taken and given back, by far the most frequent: grant-scripts.ts.

import { HEAD_START_MS } from "../contract.ts";
import { bundle } from "./grant-scripts.ts";
import { KEEP_MS, type Script, script } from "./script-library.ts";

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
  local lease = peek(resource)
  if lease and not lease.session then unlist(resource, lease)
  elseif lease and not lives(lease.session) then free(resource, lease) end
end
return {'opened', eraFloor()}
`,
);

/**
 * KEYS session, revoked. ARGV session, how many revocations are acknowledged, these ("token resource"), then resource and
 * attempt of each to withdraw. Answers with the ttl, the floor of the era, and each revocation that is not acknowledged.
 * The holder acknowledges in the order of the list, so each of them is found at its head.
 */
const renew = script(
  "renew",
  `
local session = redis.call('GET', KEYS[1])
if not session then return {'gone'} end
local ttl = string.match(session, '^%d+')
redis.call('PEXPIRE', KEYS[1], ttl + 1)
redis.call('PEXPIRE', KEYS[2], ttl + 1)
local first = 3 + ARGV[2]
-- What another program has written in place of a record or a notice must not end the renewal.
for index = 3, first - 1 do redis.pcall('LREM', KEYS[2], 1, ARGV[index]) end
for index = first, #ARGV, 2 do pcall(withdraw, ARGV[1], ARGV[index], ARGV[index + 1]) end
local answer = {'renewed', ttl, eraFloor()}
for _, text in ipairs(redis.pcall('LRANGE', KEYS[2], 0, -1)) do answer[#answer + 1] = text end
return answer
`,
);

/** KEYS session. ARGV session, then resources. Answers with resource and token of those that the session holds. */
const kept = script(
  "kept",
  `
local answer = {}
for index = 2, #ARGV do
  local lease = peek(ARGV[index])
  if lease and lease.session == ARGV[1] then
    answer[#answer + 1] = ARGV[index]
    answer[#answer + 1] = lease.token
  end
end
return answer
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
  local lease = peek(ARGV[index])
  if lease and lease.session == ARGV[1] then free(ARGV[index], lease) end
end
return 'ended'
`,
);

/** KEYS lease. ARGV resource, token. The renewals of the session report it until one acknowledges it. */
const revoke = script(
  "revoke",
  `
local lease = load(ARGV[1])
if not lives(lease.session) or lease.token ~= ARGV[2] then return 'notHeld' end
local revoked = base .. 'v:' .. lease.session
redis.call('RPUSH', revoked, ARGV[2] .. ' ' .. ARGV[1])
redis.call('PEXPIRE', revoked, redis.call('PTTL', base .. 's:' .. lease.session) + 1)
free(ARGV[1], lease)
return 'revoked'
`,
);

/**
 * KEYS lease, queue. ARGV resource, attempt, session. Answers in how many ms to look again (0: ask for the grant), and whether
 * there is a place in the queue. Who looks at a held lease waits for a message, also without such a place: that is noted,
 * because a release tells nobody otherwise.
 */
const look = script(
  "look",
  `
local place = redis.call('LPOS', KEYS[2], entry(ARGV[3], ARGV[2])) and 'queued' or 'beside'
local lease = load(ARGV[1])
if lease.session then
  local left = redis.call('PTTL', base .. 's:' .. lease.session)
  if left >= 0 then
    redis.call('PEXPIRE', KEYS[2], left + ${KEEP_MS})
    if not lease.queued then
      lease.queued = true
      save(ARGV[1], lease)
    end
    return {tostring(left + 2), place}
  end
  free(ARGV[1], lease)
end
local first = head(ARGV[1], lease)
if not first or first == ARGV[2] then return {'0', place} end
return {string.format('%.0f', math.max(0, lease.freed + ${HEAD_START_MS} - now())), place}
`,
);

/** KEYS lease. ARGV resource. Answers with the server's time, then session, token, record and time left; or with nothing. */
const read = script(
  "read",
  `
local lease = load(ARGV[1])
local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
if left < 0 then return {} end
return {string.format('%.0f', now()), lease.session, lease.token, lease.record, tostring(left)}
`,
);

/**
 * KEYS held. ARGV from and to (as ZRANGEBYLEX takes them), limit. Answers with the last name it came to, or "" at the end, the server's
 * time, then resource, session, token, record and time left of each lease that is held.
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
local answer = {last, string.format('%.0f', now())}
for _, key in ipairs(keys) do
  local resource = string.sub(key, #base + 3)
  local lease = peek(resource)
  local left = lease and lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
  if left >= 0 then
    for _, text in ipairs({resource, lease.session, lease.token, lease.record, tostring(left)}) do
      answer[#answer + 1] = text
    end
  elseif lease and lease.session then
    free(resource, lease)
  elseif lease then
    unlist(resource, lease)
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
  | "bundle"
  | "renew"
  | "kept"
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
  bundle,
  renew,
  kept,
  withdraw,
  end,
  revoke,
  look,
  read,
  list,
  watch,
  probe,
};
