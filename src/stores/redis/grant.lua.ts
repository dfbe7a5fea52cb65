// Grants and hands off leases, in Lua: the rule of queue-policy.ts, as memory/backend.ts has it in
// TypeScript. Every script starts with this library, and Redis runs each script as one atomic step.
// `<base>` stands for the hash tag that all keys of a namespace start with.
//
// A session is a key with a ttl, and a lease is held while the key of its session exists. Tokens
// are texts, because a Lua number is exact only up to 2^53. Any other program may have written to
// our keys. A malformed lease is an error. A malformed waiter or notice is skipped.

import { EXPIRY_WATCHERS } from "../queue-policy.ts";
import { START_ERA, VERIFY_ERA } from "./era.lua.ts";

/** How long the last attempt on a free resource, and a queue without renewals, are kept. */
export const KEEP_MS = 3_600_000;
/** Redis counts to 2^63. A token above this leaves no room for a new era. */
const TOKEN_MAX = "9.2e18";
/** Every integer below 2^53 is exact as a Lua number. */
export const EXACT_MAX = "9007199254740992";
const MALFORMED =
  "the record of this resource is malformed, because another program has written it; delete its key if no process holds the resource";

const SESSIONS = `
-- ---- Sessions: the key s:<session> with "<ttl> <quiet after> <process> <secret> <holder>". The
-- process listens on the channel f:<process>. It accepts only messages that are signed with its
-- secret, which a client that may not read our keys does not know.

local base = '<base>'

local function isAlive(session)
  return redis.call('EXISTS', base .. 's:' .. session) == 1
end

-- Nil if the session has expired or is malformed.
local function readSession(id)
  local text = redis.pcall('GET', base .. 's:' .. id)
  if type(text) ~= 'string' then return nil end
  local ttl, quietAfter, process, secret = string.match(text, '^(%d+) (%d+) (%S+) (%S+)')
  if not ttl then return nil end
  -- The key lives one millisecond longer than the ttl, from the last renewal on.
  local sinceRenewal = ttl + 1 - redis.call('PTTL', base .. 's:' .. id)
  local isQuiet = sinceRenewal >= tonumber(quietAfter)
  return {ttl = ttl, process = process, secret = secret, isQuiet = isQuiet}
end

-- ---- Notices: the set n:<session> with facts as JSON lists (shared/facts.ts). Renewals report
-- them until the session has acknowledged them or the lease has ended.

local function encodeFact(kind, session, lease)
  return cjson.encode({kind, session, lease.resource, lease.token, kind == 'granted' and lease.attempt or nil})
end

-- Returns the session and the fact, or nil if the session has it already.
local function addNotice(id, kind, lease)
  local session = readSession(id)
  if not session then return nil end
  local fact = encodeFact(kind, id, lease)
  if redis.pcall('SADD', base .. 'n:' .. id, fact) == 0 then return nil end
  redis.pcall('PEXPIRE', base .. 'n:' .. id, session.ttl + 1)
  return session, fact
end

local function notify(id, kind, lease)
  local session, fact = addNotice(id, kind, lease)
  if not session then return end
  local secret = session.secret
  local signature = redis.sha1hex(secret .. redis.sha1hex(secret .. fact))
  redis.pcall('PUBLISH', base .. 'f:' .. session.process, signature .. fact)
end
`;

const LEASES = `
-- ---- Leases: the key r:<resource> with
-- "<state><token>:<length of session>:<session><length of attempt>:<attempt><record>". A free lease
-- has no record; its token, session and attempt are those of the last grant. The states are H
-- (held), F (free), and W and Q for the same after contention: the resource may have waiters, and
-- the holder may have notices about it. K and L are H and F of an older version.

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- Nil if the lease is malformed. A token that INCR could not raise is malformed too: startEra()
-- would make it the counter of all resources.
local function peek(resource)
  local text = redis.pcall('GET', base .. 'r:' .. resource)
  if not text then return {resource = resource} end
  if type(text) ~= 'string' then return nil end
  local state, token, length, from = string.match(text, '^([HWKFQL])([1-9]%d*):(%d+):()')
  if not state or #token > 19 or tonumber(token) > ${TOKEN_MAX} then return nil end
  local past = from + length
  if past > #text then return nil end
  local session = string.sub(text, from, past - 1)
  length, from = string.match(text, '^(%d+):()', past)
  if not length or from + length > #text + 1 then return nil end
  past = from + length
  local isHeld = state == 'H' or state == 'W' or state == 'K'
  return {
    resource = resource,
    token = token,
    session = isHeld and session or nil,
    last = session,
    attempt = string.sub(text, from, past - 1),
    record = isHeld and string.sub(text, past) or '',
    isContended = state == 'W' or state == 'Q',
    isListed = isHeld,
  }
end

-- Whether a malformed lease is held is unknown, so nothing is decided about it (S7).
local function load(resource)
  local lease = peek(resource)
  if not lease then error('${MALFORMED}', 0) end
  return lease
end

-- Held: without a ttl, because its session has one. Free: kept for a while, so that a repeated
-- request is recognised.
local function save(lease)
  local names = lease.token .. ':' .. #lease.last .. ':' .. lease.last .. #lease.attempt .. ':' .. lease.attempt
  local key = base .. 'r:' .. lease.resource
  if lease.session then
    redis.call('SET', key, (lease.isContended and 'W' or 'H') .. names .. lease.record)
  else
    redis.call('SET', key, (lease.isContended and 'Q' or 'F') .. names, 'PX', '${KEEP_MS}')
  end
end

-- By the server's clock (S4).
local function isHeld(lease)
  return lease.session and isAlive(lease.session)
end

local function publishChange(resource)
  if redis.call('EXISTS', base .. 'watched') == 1 then
    redis.pcall('PUBLISH', base .. 'changes', resource)
  end
end

-- The token of the next grant (S1). A counter that was missing, or is not above the last token of
-- the resource, was lost: a new era starts.
local function nextToken(last)
  local function count()
    local counter = redis.call('INCR', base .. 'token')
    if counter < ${EXACT_MAX} then return string.format('%.0f', counter) end
    return redis.call('GET', base .. 'token')
  end
  local token = count()
  local isAbove = not last or #token > #last or (#token == #last and token > last)
  if token == '1' or not isAbove then
    startEra(last or '0')
    token = count()
  end
  return token
end

-- The holder loses the lease, so its notices about it are obsolete.
local function dropNotices(lease)
  if not lease.session or not lease.isContended then return end
  local granted = encodeFact('granted', lease.session, lease)
  local wanted = encodeFact('wanted', lease.session, lease)
  redis.pcall('SREM', base .. 'n:' .. lease.session, granted, wanted)
end

-- Writes a new holder. The commands that can fail come first.
local function hold(lease, session, attempt, record)
  local token = nextToken(lease.token)
  if not lease.isListed then redis.call('ZADD', base .. 'held', '0', base .. 'r:' .. lease.resource) end
  dropNotices(lease)
  lease.session, lease.last, lease.attempt, lease.token = session, session, attempt, token
  -- As core/record.ts writes it, in place of the closing brace.
  lease.record = string.sub(record, 1, -2) .. ',"grantedAtMs":' .. now() .. '}'
  lease.isListed = true
  save(lease)
  publishChange(lease.resource)
end
`;

const QUEUES = `
-- ---- Queues: the sorted set w:<resource>. The score of a waiter is its rank, and its member is a
-- JSON list of place, session and attempt, so that waiters of one rank are ordered by place. The
-- hash a:<session> has the rest by attempt, as a JSON list: resource, rank, member, holder, record.

-- A JSON list of at least this many texts; nil if it is anything else.
local function decodeTexts(text, count)
  if type(text) ~= 'string' then return nil end
  local isJson, list = pcall(cjson.decode, text)
  if not isJson or type(list) ~= 'table' then return nil end
  for index = 1, count do
    if type(list[index]) ~= 'string' then return nil end
  end
  return list
end

-- Nil if the attempt is not queued.
local function readWaiter(session, attempt)
  local texts = decodeTexts(redis.pcall('HGET', base .. 'a:' .. session, attempt), 5)
  if not texts then return nil end
  return {
    session = session,
    attempt = attempt,
    resource = texts[1],
    rank = texts[2],
    member = texts[3],
    holder = texts[4],
    record = texts[5],
  }
end

-- Adds the waiter to the queue of its resource, unless it is there already.
local function enqueue(waiter, ttl)
  local queue = base .. 'w:' .. waiter.resource
  redis.call('ZADD', queue, waiter.rank, waiter.member)
  local keepMs = ttl + ${KEEP_MS}
  if redis.call('PTTL', queue) < keepMs then redis.call('PEXPIRE', queue, keepMs) end
end

-- A repeated request keeps its place.
local function joinQueue(waiter)
  local session = readSession(waiter.session)
  if not session then return end
  local known = readWaiter(waiter.session, waiter.attempt)
  if known then return enqueue(known, session.ttl) end
  local queue = base .. 'w:' .. waiter.resource
  local last = redis.call('ZREVRANGEBYSCORE', queue, waiter.rank, waiter.rank, 'LIMIT', '0', '1')[1]
  local place = (last and tonumber(string.match(last, '%d+')) or 0) + 1
  waiter.member = cjson.encode({string.format('%016.0f', place), waiter.session, waiter.attempt})
  enqueue(waiter, session.ttl)
  local attempts = base .. 'a:' .. waiter.session
  local texts = {waiter.resource, waiter.rank, waiter.member, waiter.holder, waiter.record}
  redis.call('HSET', attempts, waiter.attempt, cjson.encode(texts))
  redis.call('PEXPIRE', attempts, session.ttl + 1)
end

local function leaveQueue(session, attempt)
  local waiter = readWaiter(session, attempt)
  if not waiter then return end
  redis.pcall('ZREM', base .. 'w:' .. waiter.resource, waiter.member)
  redis.call('HDEL', base .. 'a:' .. session, attempt)
end

local function hasQueue(resource)
  local size = redis.pcall('ZCARD', base .. 'w:' .. resource)
  return type(size) == 'number' and size > 0
end

-- Calls visit(waiter, isQuiet) for each waiter in order, until it returns true. Removes waiters
-- whose session has expired.
local function eachWaiter(resource, visit)
  local queue, index = base .. 'w:' .. resource, 0
  while true do
    local members = redis.pcall('ZRANGE', queue, index, index)
    local member = members[1]
    if not member then return end
    local names = decodeTexts(member, 3)
    local session = names and readSession(names[2])
    local waiter = session and readWaiter(names[2], names[3])
    if not waiter or waiter.resource ~= resource then
      redis.call('ZREM', queue, member)
    else
      if visit(waiter, session.isQuiet) then return end
      index = index + 1
    end
  end
end

-- The waiter to which a free resource is handed off: findNext() of queue-policy.ts. The session
-- that sends the request is never quiet.
local function findNext(resource, requester, preferred)
  local first, best
  eachWaiter(resource, function(waiter, isQuiet)
    if isQuiet and waiter.session ~= requester then return false end
    first = first or waiter
    if waiter.holder == preferred then best = waiter end
    return best or not preferred
  end)
  return best or first
end
`;

const HAND_OFF = `
-- ---- The rule. Release, withdrawal, revocation, the end of a session and expiry all end here.

-- Ends the lease, and grants the resource to the next waiter if there is one. "requester": the
-- session that sends the request. "answered": its attempt, whose grant the answer reports.
local function handOff(lease, requester, preferred, answered)
  local resource = lease.resource
  local waiter = lease.isContended and findNext(resource, requester, preferred)
  if not waiter then
    dropNotices(lease)
    if lease.isListed then redis.call('ZREM', base .. 'held', base .. 'r:' .. resource) end
    lease.session, lease.isListed, lease.record = nil, false, ''
    lease.isContended = lease.isContended and hasQueue(resource)
    if lease.token then save(lease) end
    publishChange(resource)
    return
  end
  hold(lease, waiter.session, waiter.attempt, waiter.record)
  leaveQueue(waiter.session, waiter.attempt)
  if waiter.attempt ~= answered then notify(waiter.session, 'granted', lease) end
  -- Not published: the next renewal of the new holder reports it.
  if hasQueue(resource) then addNotice(waiter.session, 'wanted', lease) end
end

-- In how many milliseconds this session should check whether the holder has expired, or '-' if
-- others do: only the first few sessions that are not quiet check.
local function checkInMs(lease, session)
  local left = lease.session and redis.call('PTTL', base .. 's:' .. lease.session) or -2
  if left < 0 then return '-' end
  local seen, count, isFirst = {}, 0, false
  eachWaiter(lease.resource, function(waiter, isQuiet)
    isFirst = waiter.session == session
    if not isQuiet and not seen[waiter.session] then
      seen[waiter.session] = true
      count = count + 1
    end
    return isFirst or count == ${EXPIRY_WATCHERS}
  end)
  return isFirst and tostring(left + 2) or '-'
end

-- Answers with a token, "busy <record of the holder>", "queued <checkInMs> <record>", or a word.
local function grant(session, resource, attempt, holder, rank, record, queues)
  if not isAlive(session) then return 'gone' end
  local lease = load(resource)
  if lease.attempt == attempt then
    if lease.session ~= session then return 'ended' end
    -- Written again: WAIT waits only for what its own connection wrote.
    save(lease)
    return lease.token
  end
  local wasHeld = isHeld(lease)
  if not wasHeld and not lease.isContended then
    hold(lease, session, attempt, record)
    return lease.token
  end
  if wasHeld and not queues then return 'busy ' .. lease.record end
  joinQueue({session = session, resource = resource, attempt = attempt, rank = rank, holder = holder, record = record})
  if not wasHeld then handOff(lease, session, nil, attempt) end
  if lease.attempt == attempt then return lease.token end
  if not queues then
    leaveQueue(session, attempt)
    return 'busy ' .. lease.record
  end
  if not lease.isContended then
    lease.isContended = true
    save(lease)
  end
  notify(lease.session, 'wanted', lease)
  return 'queued ' .. checkInMs(lease, session) .. ' ' .. lease.record
end

-- Conditional on session and token (S5).
local function release(session, resource, token, preferred)
  local lease = load(resource)
  if lease.session ~= session or lease.token ~= token or not isAlive(session) then return 'notHeld' end
  handOff(lease, nil, preferred)
  return 'released'
end

local function withdraw(session, resource, attempt)
  leaveQueue(session, attempt)
  local lease = load(resource)
  if lease.session == session and lease.attempt == attempt and isAlive(session) then handOff(lease) end
end

-- Hands the resource off if it is free or its holder has expired.
local function settle(resource, requester)
  local lease = load(resource)
  if isHeld(lease) then return lease end
  -- A waiter knows that there is a queue, even if another program has deleted the lease.
  lease.isContended = true
  handOff(lease, requester)
  return lease
end
`;

export interface Script {
  readonly name: string;
  readonly text: string;
}

/** `common` may answer before the library is defined. */
export function makeScript(name: string, body: string, common = ""): Script {
  const parts = [START_ERA, VERIFY_ERA, common, SESSIONS, LEASES, QUEUES, HAND_OFF, body];
  return { name, text: `-- tenure: ${name}\n${parts.join("")}` };
}
