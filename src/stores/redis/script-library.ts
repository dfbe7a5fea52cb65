// What several scripts need, in the server's own language; it stands before each of them. Every redis.call costs about as
// much as a small command, so the common path has few: a lease is one text, read and written at once.
//
// A lease is `<length of session> <length of attempt> <token> <free since> <anyone queued> ` and then session, attempt and
// record; a waiter is `<length of session>:` and then session and attempt. So any names can be told apart.

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

local function load(resource)
  local text = redis.call('GET', base .. 'r:' .. resource)
  if not text then return {freed = 0} end
  local session, attempt, token, freed, queued, from =
    string.match(text, '^(%d+) (%d+) (%d+) (%d+) (%d) ()')
  local middle = from + session
  local behind = middle + attempt
  return {
    session = session ~= '0' and string.sub(text, from, middle - 1) or nil,
    attempt = string.sub(text, middle, behind - 1),
    token = token,
    freed = tonumber(freed),
    queued = queued == '1',
    record = string.sub(text, behind),
  }
end

-- Held: without a ttl, it counts while its session lives. Free: kept for a while, to recognise a repeated request.
local function save(resource, lease)
  local session = lease.session or ''
  local text = #session .. ' ' .. #lease.attempt .. ' ' .. lease.token .. ' ' .. lease.freed
    .. (lease.queued and ' 1 ' or ' 0 ') .. session .. lease.attempt .. lease.record
  if lease.session then redis.call('SET', base .. 'r:' .. resource, text)
  else redis.call('SET', base .. 'r:' .. resource, text, 'PX', ${KEEP_MS}) end
end

local function entry(session, attempt)
  return #session .. ':' .. session .. attempt
end

-- The first waiter whose session lives; the dead before it are dropped.
local function head(resource, lease)
  if not lease.queued then return nil end
  local queue = base .. 'q:' .. resource
  while true do
    local first = redis.call('LINDEX', queue, 0)
    if not first then
      lease.queued = false
      return nil
    end
    local length = string.match(first, '^(%d+):')
    local from = #length + 2
    local behind = from + length
    if lives(string.sub(first, from, behind - 1)) then return string.sub(first, behind) end
    redis.call('LPOP', queue)
  end
end

local function tell(resource, message)
  redis.call('PUBLISH', base .. 'c:' .. resource, message)
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
  save(resource, lease)
  redis.call('ZREM', base .. 'held', resource)
  tellFree(resource, first)
end

-- Gives back what the attempt got, or its place in the queue.
local function withdraw(session, resource, attempt)
  local left = redis.call('LREM', base .. 'q:' .. resource, 0, entry(session, attempt))
  local lease = load(resource)
  if lease.session == session and lease.attempt == attempt and lives(session) then
    free(resource, lease)
  elseif left > 0 and not lives(lease.session) then
    tellFree(resource, head(resource, lease))
  end
end
`;
