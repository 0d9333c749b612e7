"""The Lua scripts of the store: each makes one change as a whole, by the clock of the server.

Numbers (revisions, tokens, the order of creation) come from one counter of the namespace. The counter is never below
the time in microseconds, so that no number is used twice, even after a server lost its data.

Limits: a ledger has a bill for each task of a namespace, or for each value of a group of namespaces. Bills outlive what
they are for, which Redis deletes when it expires, so that the ledger can be corrected afterwards.

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

_LEDGER = """
local entries, bills, tallies = ledger .. 'entries', ledger .. 'bills', ledger .. 'tallies'

local function tally(name) return tonumber(redis.call('HGET', tallies, name) or 0) end

local function add(name, amount)
  if redis.call('HINCRBY', tallies, name, amount) <= 0 then redis.call('HDEL', tallies, name) end
end

-- A bill is {space, account, bytes, owner}: the entries of the space and the bytes of the account are limited.
local function bill(entry)
  local packed = redis.call('HGET', bills, entry)
  return packed and cmsgpack.unpack(packed)
end

local function count(bill, sign)
  add('count ' .. bill[1], sign)
  add('bytes', sign * bill[3])
  if bill[2] ~= '' then add('bytes ' .. bill[2], sign * bill[3]) end
end

local function forget(entry)
  local old = bill(entry)
  if old then
    redis.call('HDEL', bills, entry)
    count(old, -1)
  end
  redis.call('ZREM', entries, entry)
  return old
end

local function charge(entry, expires, new)
  forget(entry)
  redis.call('HSET', bills, entry, cmsgpack.pack(new))
  count(new, 1)
  redis.call('ZADD', entries, expires == '' and '+inf' or expires, entry)
end

local function sweep_ledger(limit, expire)
  local expired = redis.call('ZRANGEBYSCORE', entries, '-inf', text(now), 'LIMIT', 0, limit)
  for _, entry in ipairs(expired) do expire(entry) end
  return #expired
end

local function lack(entry, new, max_entries, max_space, max_bytes, max_account)
  local old = bill(entry)
  local added = new[3] - (old and old[3] or 0)
  if not old then
    if max_entries ~= '' and redis.call('ZCARD', entries) >= tonumber(max_entries) then return 'entries' end
    if tally('count ' .. new[1]) >= tonumber(max_space) then return 'space' end
  end
  if added > 0 and tally('bytes') + added > tonumber(max_bytes) then return 'bytes' end
  if old and old[2] ~= new[2] then added = new[3] end
  if new[2] ~= '' and added > 0 and tally('bytes ' .. new[2]) + added > tonumber(max_account) then
    return 'account bytes'
  end
end

-- Why there is no room for an entry, although expired ones make room.
local function refusal(entry, new, expire, ...)
  local reason = lack(entry, new, ...)
  while reason and sweep_ledger(100, expire) > 0 do reason = lack(entry, new, ...) end
  return reason
end
"""

_VALUES = _CLOCK + "local ledger = KEYS[2]" + _LEDGER

SET_VALUE = Script(
    _VALUES,
    """
local key, value, ttl, expected, account, size, max_values, max_bytes, max_account = unpack(ARGV)
local name, entry = prefix .. 'value:' .. key, prefix .. key
local revision = string.match(redis.call('GETRANGE', name, 0, 19), '^(%d+):') or '0'
if expected ~= '' and expected ~= revision then return false end
local new = {prefix, account, tonumber(size)}
local reason = refusal(entry, new, forget, '', max_values, max_bytes, max_account)
if reason then return reason end
local number = next_number()
sweep_ledger(10, forget)
local expires = ttl == '' and '' or after(ttl)
if ttl == '' then
  redis.call('SET', name, number .. ':' .. value)
else
  redis.call('SET', name, number .. ':' .. value, 'PXAT', expires)
end
charge(entry, expires, new)
local longest = redis.call('ZRANGE', entries, -1, -1, 'WITHSCORES')[2]
for _, book in ipairs({entries, bills, tallies}) do
  if longest == 'inf' then redis.call('PERSIST', book) else redis.call('PEXPIREAT', book, longest) end
end
return number
""",
)

DELETE_VALUE = Script(
    _VALUES,
    """
forget(prefix .. ARGV[1])
return redis.call('DEL', prefix .. 'value:' .. ARGV[1])
""",
)

_LOGS = """
local stream, order, sizes, total = KEYS[1] .. 'events', KEYS[2] .. 'order', KEYS[2] .. 'sizes', KEYS[2] .. 'bytes'
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000

local function size(log) return tonumber(redis.call('HGET', sizes, log) or 0) end

-- HDEL comes first, because a full server does not refuse it.
local function forget(log)
  local bytes = size(log)
  redis.call('HDEL', sizes, log)
  redis.call('ZREM', order, log)
  redis.call('DECRBY', total, bytes)
end
"""

APPEND = Script(
    _LOGS,
    """
local max_events, max_bytes, max_total, seconds = unpack(ARGV, 1, 4)
local bytes = redis.call('EXISTS', stream) == 1 and size(KEYS[1]) or 0
for i = 5, #ARGV, 2 do
  local added = redis.pcall('XADD', stream, ARGV[i] .. '-1', 'event', ARGV[i + 1])
  if type(added) ~= 'table' then
    bytes = bytes + #ARGV[i + 1]
  elseif not string.find(added.err, 'equal or smaller') then
    return added
  end
end
local count, start = redis.call('XLEN', stream), '-'
local kept = count
while kept > 1 and (kept > tonumber(max_events) or bytes > tonumber(max_bytes)) do
  local oldest = redis.call('XRANGE', stream, start, '+', 'COUNT', 1)[1]
  start, kept, bytes = '(' .. oldest[1], kept - 1, bytes - #oldest[2][2]
end
if kept < count then redis.call('XTRIM', stream, 'MAXLEN', '=', kept) end
redis.call('EXPIRE', stream, seconds)
forget(KEYS[1])
redis.call('INCRBY', total, bytes)
redis.call('HSET', sizes, KEYS[1], bytes)
redis.call('ZADD', order, string.format('%.6f', now + seconds + 1), KEYS[1])
local expired = redis.call('ZRANGEBYSCORE', order, '-inf', string.format('%.6f', now), 'LIMIT', 0, 100)
for _, log in ipairs(expired) do forget(log) end
while tonumber(redis.call('GET', total)) > tonumber(max_total) do
  local idle = redis.call('ZRANGE', order, 0, 0)[1]
  if idle == KEYS[1] then break end
  redis.call('DEL', idle .. 'events')
  forget(idle)
end
for _, book in ipairs({order, sizes, total}) do redis.call('EXPIRE', book, seconds + 60) end
return kept
""",
)

DELETE_LOG = Script(
    _LOGS,
    """
if size(KEYS[1]) > 0 then forget(KEYS[1]) end
return redis.call('DEL', stream)
""",
)

_TASKS = (
    _CLOCK
    + "local ledger = prefix"
    + _LEDGER
    + """
local ready, running, bell = prefix .. 'ready', prefix .. 'running', prefix .. 'bell'

local function task(id) return prefix .. 'task:' .. id end
local function owned(owner) return prefix .. 'owner:' .. owner end

local function record(id)
  local fields = redis.call('HMGET', task(id), 'value', 'revision', 'phase', 'token', 'created', 'expires', 'summary')
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

local function expire(id)
  local old = forget(id)
  if old then redis.call('ZREM', owned(old[4]), id) end
  redis.call('DEL', task(id))
  place(id, 'expired')
  report(id)
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
local id, value, summary, owner, account, size, ttl, lease, max_tasks, max_count, max_bytes, max_account = unpack(ARGV)
if redis.call('EXISTS', task(id)) == 1 then return 'exists' end
if bill(id) then expire(id) end
local new = {account, account, tonumber(size), owner}
local reason = refusal(id, new, expire, max_tasks, max_count, max_bytes, max_account)
if reason then return reason end
local number = next_number()
local phase, token, expires = 'ready', '0', ''
if lease ~= '' then phase, token = 'running', number end
if ttl ~= '' then expires = after(ttl) end
redis.call('HSET', task(id), 'value', value, 'summary', summary, 'revision', number, 'phase', phase, 'token', token,
  'created', text(microseconds), 'expires', expires)
if ttl ~= '' then redis.call('PEXPIREAT', task(id), expires) end
charge(id, expires, new)
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
claimed[9] = was_lost
return claimed
""",
)

CHANGE = Script(
    _TASKS,
    """
local id, value, summary, has_summary, revision, token, phase, ttl, min_size, max_bytes, max_account = unpack(ARGV)
local kept = redis.call('HMGET', task(id), 'revision', 'phase', 'token', 'created', 'expires')
local old = bill(id)
if not kept[1] or kept[2] == 'finished' or not old then return false end
if (revision ~= '' and revision ~= kept[1]) or (token ~= '' and token ~= kept[3]) then return false end
local size = #value + (has_summary == '1' and #summary or redis.call('HSTRLEN', task(id), 'summary'))
local new = {old[1], old[2], math.max(size, tonumber(min_size)), old[4]}
local reason = refusal(id, new, expire, '', '0', max_bytes, max_account)
if reason then return reason end
if phase == 'finished' then redis.call('DEL', prefix .. 'none') end
local number = next_number()
if phase == '' then phase = kept[2] end
redis.call('HSET', task(id), 'value', value, 'revision', number, 'phase', phase)
if has_summary == '1' then redis.call('HSET', task(id), 'summary', summary) end
place(id, phase, number)
report(id)
local expires = ttl ~= '' and text(math.ceil(kept[4] / 1000) + ttl) or kept[5]
if ttl ~= '' then redis.call('HSET', task(id), 'expires', expires) end
charge(id, expires, new)
local changed = record(id)
if ttl ~= '' then redis.call('PEXPIREAT', task(id), expires) end
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
local start, place, found = '-inf', 0, {}
if last ~= '' then
  local score = redis.call('ZSCORE', owned(owner), last)
  if not score then return {} end
  start = '(' .. score
end
while #found < limit do
  local ids = redis.call('ZRANGEBYSCORE', owned(owner), start, '+inf', 'LIMIT', place, limit - #found)
  if #ids == 0 then break end
  place = place + #ids
  for _, id in ipairs(ids) do
    local fields = redis.call('HMGET', task(id), 'summary', 'revision', 'phase', 'created', 'expires')
    if fields[1] then found[#found + 1] = {id, unpack(fields)} end
  end
end
return found
""",
)

SWEEP = Script(_TASKS, "return sweep_ledger(1000, expire)")
