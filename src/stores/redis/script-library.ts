// What several scripts need, in the server's own language; it stands before each of them. A waiter is an entry of a list:
// the length of its session's name, a colon, that name, the attempt; so any names can be told apart.

/** How long the last attempt on a free resource is remembered, and a queue that nobody asks about. */
export const KEEP_MS = 3_600_000;

/** ARGV[1] is the base of all names. The helpers build keys only from it: same hash tag, same slot. */
export const LIBRARY: string = `
local base = ARGV[1]

local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function lives(session)
  return session and redis.call('EXISTS', base .. 's:' .. session) == 1
end

local function entry(session, attempt)
  return #session .. ':' .. session .. attempt
end

-- The first waiter whose session lives; the dead before it are dropped.
local function head(resource)
  local queue = base .. 'q:' .. resource
  while true do
    local first = redis.call('LINDEX', queue, 0)
    if not first then return nil end
    local length = string.match(first, '^(%d+):')
    local from = #length + 2
    local behind = from + tonumber(length)
    if lives(string.sub(first, from, behind - 1)) then return string.sub(first, behind) end
    redis.call('LPOP', queue)
  end
end

local function tell(resource, message)
  redis.call('PUBLISH', base .. 'c:' .. resource, message)
end

local function tellFree(resource)
  local first = head(resource)
  tell(resource, first and ('free ' .. first) or 'free')
end

-- Ends a grant. Attempt and token stay for a while, so that a repeated request is recognised.
local function free(resource, session)
  local lease = base .. 'r:' .. resource
  redis.call('HDEL', lease, 's', 'v')
  redis.call('HSET', lease, 'f', string.format('%.0f', now()))
  redis.call('PEXPIRE', lease, ${KEEP_MS})
  redis.call('ZREM', base .. 'held', resource)
  redis.call('HDEL', base .. 's:' .. session, 'l:' .. resource)
  tellFree(resource)
end

-- Gives back what the attempt got, or its place in the queue.
local function withdraw(session, resource, attempt)
  local left = redis.call('LREM', base .. 'q:' .. resource, 0, entry(session, attempt))
  local lease = redis.call('HMGET', base .. 'r:' .. resource, 's', 'a')
  if lease[1] == session and lease[2] == attempt and lives(session) then
    free(resource, session)
  elseif left > 0 and not lives(lease[1]) then
    tellFree(resource)
  end
end
`;
