-- Sets sessions and exchanges aside at which a step panicked, and lets sessions be tried again. Marks stand in the hash 'aside'
-- under the session's id, and behind it the exchange's where there is one: whether it is left alone (1), may be tried again (0)
-- or is an exchange (2), how often it was set aside (6 digits), and a document.
-- ARGV, any number of: 'out', session, exchange ('': the session itself), document, score; or 'in' and the number of tries at
-- which a session stays out. Answers how many were let in.
local n = 0
local aside = P .. 'aside'

-- where is the place of an open session among those that are due.
local function where(id)
  local v = call('HMGET', key('s', id), 'h', 'w', 'a')
  if v[3] then return nil end
  if v[1] then return string.sub(v[1], 17) == '0' and string.sub(v[1], 1, 8) or nil end
  return v[2]
end

local function out()
  local id, exchange, doc, score = arg(), arg(), arg(), arg()
  mention(id, score)
  local old = call('HGET', aside, id .. exchange)
  local tries = old and tonumber(string.sub(old, 2, 7)) or 0
  call('HSET', aside, id .. exchange, (exchange == '' and '1' or '2') .. string.format('%06d', tries + 1) .. doc)
  if exchange == '' then
    local at = where(id)
    if at then call('ZREM', P .. 'due', at .. id) end
    call('SREM', P .. 'unsettled', id)
  end
end

-- back lets sessions be tried again that were set aside fewer times than most.
local function back()
  local most, all = tonumber(arg()), call('HGETALL', aside)
  for i = 1, #all, 2 do
    local id, value = all[i], all[i + 1]
    if string.sub(value, 1, 1) == '1' and tonumber(string.sub(value, 2, 7)) < most then
      call('HSET', aside, id, '0' .. string.sub(value, 2))
      local at = where(id)
      if at then call('ZADD', P .. 'due', 0, at .. id) end
      if call('HEXISTS', key('s', id), 'a') == 1 then call('SADD', P .. 'unsettled', id) end
      n = n + 1
    end
  end
end

while more() do
  if arg() == 'out' then out() else back() end
end
done()
return n
