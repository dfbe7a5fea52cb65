// What several scripts need, in the server's own language. Every redis.call costs about as much as a small command, and so
// does defining these helpers, so the common paths come before them in their scripts and end without them.
//
// A lease is one text, read and written at once: `<state><token>:<length of session>:<session><length of attempt>:<attempt>`
// and then, while it is held, the record; so any names can be told apart. The states: `H` held, `W` held and somebody may be
// waiting, `F` free, `Q` free and somebody is queued (followed by the time since when). A name that is taken again and again
// stays in the list of what is held, which spares two commands each time: `K` held by such a name, `L` free but still listed.
// H, W, K and L are listed, F and Q are not. Session and attempt of a free lease are those of the last grant. A waiter is
// `<length of session>:` and then session and attempt.

import { ERA_GAP } from "../../core/era.ts";

/** How long the last attempt on a free resource is remembered, and a queue that nobody asks about. */
export const KEEP_MS = 3_600_000;

/** Of a queue: whose turn it is, and those who look out for the rest, should the first be stuck. */
const TOLD = 3;
/** So many are looked at to find them among the dead. */
const LOOKED_AT = 8;
/** Redis counts to 2^63. What is above this leaves no room for a new era. */
const TOKEN_MAX = "9.2e18";
const MALFORMED =
  "the record of this resource is malformed, because another program has written it; delete its key if no process holds the resource";

/**
 * startOfEra() of core/era.ts. A counter above 2^53 is not exact as a Lua number, so Redis itself raises it: the clock is below
 * it then, by more than the gap.
 */
export const START_ERA: string = `
local function startEra(last)
  local time = redis.call('TIME')
  local clock, known = time[1] * 1000000 + time[2], tonumber(last)
  if known > clock + ${ERA_GAP} then
    redis.call('SET', '<base>token', last)
    redis.call('INCRBY', '<base>token', ${ERA_GAP / 2n})
  else
    local above = known + ${ERA_GAP} + math.floor((clock - known) / 2)
    redis.call('SET', '<base>token', string.format('%.0f', math.max(clock, above)))
  end
  return redis.call('GET', '<base>token')
end
`;

/**
 * What every script begins with. A server process that does not have the script may have lost grants: it was restarted, or it
 * was a replica. The script is then sent as text, with one more key, and starts an era if another process started the current
 * one. That happens in the same atomic step as what the script does. A server that has the script has been through
 * this, because only a text that was run with the key is ever sent. Before 7.0 a server keeps its scripts over a restart and
 * hands them to replicas: there every call has the key.
 */
const VERIFY: string = `
local keys = #KEYS
if KEYS[keys] == '<base>era' then
  ${START_ERA.trim()}
  keys = keys - 1
  local info, server = redis.pcall('INFO', 'server'), 'unknown'
  if type(info) == 'string' then server = string.match(info, 'run_id:(%x+)') or server end
  if server == 'unknown' or string.match(redis.call('GET', '<base>era') or '', '^%x+') ~= server then
    redis.call('SET', '<base>era', server .. ' ' .. startEra(redis.call('GET', '<base>token') or '0'))
  end
end
`;

/** Every key begins with the same hash tag, put in place of `<base>` when the scripts are loaded: same slot. */
const LIBRARY: string = `
local base = '<base>'
${START_ERA.trim()}

-- Where the tokens of this server process start, as text.
local function eraFloor()
  return string.match(redis.call('GET', base .. 'era') or '', '%d+$') or '0'
end

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function lives(session)
  return session and redis.call('EXISTS', base .. 's:' .. session) == 1
end

-- Another program may have written anything under the key, or a value of another type: nil then. A token that INCR could
-- not raise is malformed too: startEra() would make it the counter of all resources.
local function peek(resource)
  local text = redis.pcall('GET', base .. 'r:' .. resource)
  if not text then return {freed = 0} end
  if type(text) ~= 'string' then return nil end
  local state, token, length, from = string.match(text, '^([HWKFQL])([1-9]%d*):(%d+):()')
  if not state or #token > 19 or tonumber(token) > ${TOKEN_MAX} then return nil end
  local behind = from + length
  if behind > #text then return nil end
  local session = string.sub(text, from, behind - 1)
  length, from = string.match(text, '^(%d+):()', behind)
  if not length or from + length > #text + 1 then return nil end
  behind = from + length
  local held = state == 'H' or state == 'W' or state == 'K'
  local rest = string.sub(text, behind)
  local freed = 0
  if state == 'Q' then freed = string.match(rest, '^%d+$') and #rest < 16 and tonumber(rest) end
  if not freed then return nil end
  return {
    session = held and session or nil,
    last = session,
    attempt = string.sub(text, from, behind - 1),
    token = token,
    freed = freed,
    queued = state == 'W' or state == 'Q',
    record = held and rest or '',
  }
end

-- Whether the resource is held is unknown where its record is malformed: nothing is decided then (S7).
local function load(resource)
  local lease = peek(resource)
  if not lease then error('${MALFORMED}', 0) end
  return lease
end

-- Held: without a ttl, it counts while its session lives. Free: kept for a while, to recognise a repeated request.
local function save(resource, lease)
  local who = lease.token .. ':' .. #lease.last .. ':' .. lease.last .. #lease.attempt .. ':' .. lease.attempt
  local key = base .. 'r:' .. resource
  if lease.session then redis.call('SET', key, (lease.queued and 'W' or 'H') .. who .. lease.record)
  elseif lease.queued then redis.call('SET', key, 'Q' .. who .. string.format('%.0f', lease.freed), 'PX', ${KEEP_MS})
  else redis.call('SET', key, 'F' .. who, 'PX', ${KEEP_MS}) end
end

-- It is not held: out of the list.
local function unlist(resource, lease)
  redis.call('ZREM', base .. 'held', base .. 'r:' .. resource)
  if lease.token then save(resource, lease) end
end

local function entry(session, attempt)
  return #session .. ':' .. session .. attempt
end

-- The session and the attempt of such an entry. A malformed one belongs to no session.
local function parts(waiter)
  local length = string.match(waiter, '^(%d+):')
  if not length then return nil end
  local from = #length + 2
  return string.sub(waiter, from, from + length - 1), string.sub(waiter, from + length)
end

-- The first waiter whose session lives; the dead before it are dropped.
local function head(resource, lease)
  if not lease.queued then return nil end
  local queue = base .. 'q:' .. resource
  while true do
    local first = redis.pcall('LINDEX', queue, 0)
    -- Not a list where another program has written there.
    if type(first) ~= 'string' then
      lease.queued = false
      return nil
    end
    local session, attempt = parts(first)
    if lives(session) then return attempt end
    redis.call('LPOP', queue)
  end
end

-- Told are those who listen to the resource, and the first few of the queue, each by itself: the others need not know yet, and
-- a hundred that are woken for one turn keep it from a core.
local function tell(resource, message)
  redis.call('PUBLISH', base .. 'c:' .. resource, message)
  local told = 0
  for _, waiter in ipairs(redis.pcall('LRANGE', base .. 'q:' .. resource, 0, ${LOOKED_AT - 1})) do
    local session, attempt = parts(waiter)
    if lives(session) then
      redis.call('PUBLISH', base .. 't:' .. attempt, message)
      told = told + 1
      if told == ${TOLD} then return end
    end
  end
end

local function tellFree(resource, first)
  tell(resource, first and ('free ' .. first) or 'free')
end

-- Ends a grant, and tells whose turn it is.
local function free(resource, lease)
  local first = head(resource, lease)
  lease.session = nil
  lease.record = ''
  lease.freed = first and now() or 0
  unlist(resource, lease)
  tellFree(resource, first)
end

-- Gives back what the attempt got, or its place in the queue.
local function withdraw(session, resource, attempt)
  local left = redis.pcall('LREM', base .. 'q:' .. resource, 0, entry(session, attempt))
  local lease = load(resource)
  if lease.session == session and lease.attempt == attempt and lives(session) then
    free(resource, lease)
  elseif left ~= 0 and not lives(lease.session) then
    tellFree(resource, head(resource, lease))
  end
end
`;

export interface Script {
  readonly name: string;
  /** With `<base>` for what every key begins with. */
  readonly text: string;
}

/** `usual` is the common path: it returns, or leaves everything to the body. */
export function script(name: string, body: string, usual = ""): Script {
  const parts = [`-- tenure: ${name}`, VERIFY.trim(), usual.trim(), LIBRARY, body.trim()];
  return { name, text: `${parts.join("\n")}\n` };
}
