"""The Lua scripts of the store: each makes one change as a whole, by the clock of the server.

Numbers (revisions, tokens, the order of creation) come from one counter of the namespace. The counter is never below
the time in microseconds, so that no number is used twice, even after a server lost its data.

Memory: a script that Redis lets write once may go on writing. So a script that needs memory begins with `SET`, which a
full server refuses before anything has changed. Renewing, releasing and finishing must also work in a full server; they
begin with `DEL`, which no server refuses.
"""

from __future__ import annotations

import hashlib


class Script:
    """A Lua script; a server that has run it once knows it by its digest."""

    def __init__(self, *parts: str) -> None:
        self.source = "".join(parts)
        self.digest = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()


_CLOCK = """
local prefix = KEYS[1]
local time = redis.call('TIME')
local microseconds = time[1] * 1000000 + time[2]
local now = math.floor(microseconds / 1000)

local function text(number) return string.format('%.0f', number) end

local function after(milliseconds) return text(math.ceil(microseconds / 1000) + milliseconds) end

local function next_number()
  local last = tonumber(redis.call('GET', prefix .. 'last') or 0)
  local number = text(math.max(last + 1, microseconds))
  redis.call('SET', prefix .. 'last', number, 'EX', 604800)
  return number
end
"""

SET_VALUE = Script(
    _CLOCK,
    """
local key, value, ttl, max_values, expected = unpack(ARGV)
local name, index = prefix .. 'value:' .. key, prefix .. 'keys'
local revision = string.match(redis.call('GETRANGE', name, 0, 19), '^(%d+):') or '0'
if expected ~= '' and expected ~= revision then return false end
if revision == '0' and redis.call('ZCOUNT', index, '(' .. text(now), '+inf') >= tonumber(max_values) then
  return 'full'
end
local number = next_number()
redis.call('ZREMRANGEBYSCORE', index, '-inf', text(now))
if ttl == '' then
  redis.call('SET', name, number .. ':' .. value)
  redis.call('ZADD', index, '+inf', key)
else
  redis.call('SET', name, number .. ':' .. value, 'PXAT', after(ttl))
  redis.call('ZADD', index, after(ttl), key)
end
local longest = redis.call('ZRANGE', index, -1, -1, 'WITHSCORES')[2]
if longest == 'inf' then redis.call('PERSIST', index) else redis.call('PEXPIREAT', index, longest) end
return number
""",
)

DELETE_VALUE = Script("""
redis.call('ZREM', KEYS[1] .. 'keys', ARGV[1])
return redis.call('DEL', KEYS[1] .. 'value:' .. ARGV[1])
""")

APPEND = Script("""
local stream, counter = KEYS[1] .. 'events', KEYS[1] .. 'bytes'
local max_events, max_bytes, seconds = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local bytes = redis.call('EXISTS', stream) == 1 and tonumber(redis.call('GET', counter)) or 0
for i = 4, #ARGV, 2 do
  local added = redis.pcall('XADD', stream, ARGV[i] .. '-1', 'event', ARGV[i + 1])
  if type(added) ~= 'table' then
    bytes = bytes + #ARGV[i + 1]
  elseif not string.find(added.err, 'equal or smaller') then
    return added
  end
end
local count, start = redis.call('XLEN', stream), '-'
local kept = count
while kept > 1 and (kept > max_events or bytes > max_bytes) do
  local oldest = redis.call('XRANGE', stream, start, '+', 'COUNT', 1)[1]
  start, kept, bytes = '(' .. oldest[1], kept - 1, bytes - #oldest[2][2]
end
if kept < count then redis.call('XTRIM', stream, 'MAXLEN', '=', kept) end
redis.call('EXPIRE', stream, seconds)
redis.call('SET', counter, bytes, 'EX', seconds)
return kept
""")

_TASKS = (
    _CLOCK
    + """
local ready, running, all, bell = prefix .. 'ready', prefix .. 'running', prefix .. 'all', prefix .. 'bell'

local function task(id) return prefix .. 'task:' .. id end
local function owned(owner) return prefix .. 'owner:' .. owner end
local function member(owner, id) return #owner .. ':' .. owner .. id end

local function record(id)
  local fields = redis.call('HMGET', task(id), 'value', 'revision', 'phase', 'token', 'created', 'expires')
  return fields[1] and {id, unpack(fields)}
end

-- There is a bell while there are ready tasks. It wakes one waiting process, whose claim rings for the next one.
local function ring()
  if redis.call('EXISTS', ready) == 0 then
    redis.call('DEL', bell)
  elseif redis.call('EXISTS', bell) == 0 then
    redis.call('LPUSH', bell, '1')
  end
end

local function place(id, phase, number)
  if phase == 'running' then redis.call('ZADD', running, 'NX', 0, id) else redis.call('ZREM', running, id) end
  if phase == 'ready' then redis.call('ZADD', ready, 'NX', number, id) else redis.call('ZREM', ready, id) end
  ring()
end

local function report(id) redis.call('PUBLISH', prefix .. 'changed:' .. id, '') end

local function sweep(limit)
  local found = redis.call('ZRANGEBYSCORE', all, '-inf', text(now), 'LIMIT', 0, limit)
  for _, entry in ipairs(found) do
    local size, rest = string.match(entry, '^(%d+):(.*)$')
    local owner, id = string.sub(rest, 1, size), string.sub(rest, size + 1)
    redis.call('ZREM', all, entry)
    redis.call('ZREM', owned(owner), id)
    redis.call('DEL', task(id))
    place(id, 'expired')
    report(id)
  end
  return #found
end

local function is_held(id, token)
  local kept = redis.call('HMGET', task(id), 'phase', 'token')
  return kept[1] == 'running' and kept[2] == token
end
"""
)

CREATE = Script(
    _TASKS,
    """
local id, value, owner, ttl, lease, max_tasks, max_owned = unpack(ARGV)
if redis.call('EXISTS', task(id)) == 1 then return 'exists' end
local function limit()
  if redis.call('ZCARD', all) >= tonumber(max_tasks) then return 'tasks' end
  if redis.call('ZCARD', owned(owner)) >= tonumber(max_owned) then return 'owner' end
end
while limit() and sweep(100) > 0 do end
if limit() then return limit() end
local number = next_number()
local phase, token, expires = 'ready', '0', ''
if lease ~= '' then phase, token = 'running', number end
if ttl ~= '' then expires = after(ttl) end
redis.call('HSET', task(id), 'value', value, 'revision', number, 'phase', phase, 'token', token,
  'created', text(microseconds), 'expires', expires, 'owner', owner)
if ttl ~= '' then redis.call('PEXPIREAT', task(id), expires) end
redis.call('ZADD', all, ttl == '' and '+inf' or expires, member(owner, id))
redis.call('ZADD', owned(owner), number, id)
if lease ~= '' then redis.call('ZADD', running, text(microseconds + lease), id) end
place(id, phase, number)
report(id)
return record(id)
""",
)

CLAIM = Script(
    _TASKS,
    """
local function find()
  while true do
    local id = redis.call('ZRANGEBYSCORE', running, '-inf', text(microseconds), 'LIMIT', 0, 1)[1]
    local was_lost = id and 1 or 0
    id = id or redis.call('ZRANGE', ready, 0, 0)[1]
    if not id or redis.call('EXISTS', task(id)) == 1 then return id, was_lost end
    place(id, 'expired')
  end
end
local id, was_lost = find()
if not id then
  ring()
  return false
end
local number = next_number()
redis.call('HSET', task(id), 'phase', 'running', 'token', number, 'revision', number)
redis.call('ZADD', running, text(microseconds + ARGV[1]), id)
place(id, 'running')
report(id)
local claimed = record(id)
claimed[8] = was_lost
return claimed
""",
)

CHANGE = Script(
    _TASKS,
    """
local id, value, revision, token, phase, ttl = unpack(ARGV)
local kept = redis.call('HMGET', task(id), 'revision', 'phase', 'token', 'created', 'owner')
if not kept[1] or kept[2] == 'finished' then return false end
if (revision ~= '' and revision ~= kept[1]) or (token ~= '' and token ~= kept[3]) then return false end
if phase == 'finished' then redis.call('DEL', prefix .. 'none') end
local number = next_number()
if phase == '' then phase = kept[2] end
redis.call('HSET', task(id), 'value', value, 'revision', number, 'phase', phase)
place(id, phase, number)
report(id)
local expires = ttl ~= '' and text(math.ceil(kept[4] / 1000) + ttl)
if expires then redis.call('HSET', task(id), 'expires', expires) end
local changed = record(id)
if expires then
  redis.call('ZADD', all, expires, member(kept[5], id))
  redis.call('PEXPIREAT', task(id), expires)
end
return changed
""",
)

RENEW = Script(
    _TASKS,
    """
local id, token, lease = unpack(ARGV)
redis.call('DEL', prefix .. 'none')
if not is_held(id, token) then return 0 end
redis.call('ZADD', running, text(microseconds + lease), id)
return 1
""",
)

RELEASE = Script(
    _TASKS,
    """
local id, token = unpack(ARGV)
redis.call('DEL', prefix .. 'none')
if not is_held(id, token) then return 0 end
local number = next_number()
redis.call('HSET', task(id), 'phase', 'ready', 'revision', number)
place(id, 'ready', number)
report(id)
return 1
""",
)

LIST = Script(
    _TASKS,
    """
local owner, last, limit = ARGV[1], ARGV[2], tonumber(ARGV[3])
local start, found = '-inf', {}
if last ~= '' then
  local score = redis.call('ZSCORE', owned(owner), last)
  if not score then return {} end
  start = '(' .. score
end
for _, id in ipairs(redis.call('ZRANGEBYSCORE', owned(owner), start, '+inf')) do
  if #found == limit then break end
  local one = record(id)
  if one then found[#found + 1] = one end
end
return found
""",
)

SWEEP = Script(_TASKS, "return sweep(1000)")
