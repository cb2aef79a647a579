-- Deletes the exchanges in sessions after a consumer group has acknowledged the samples. The session's 'cool' holds the deleted
-- exchanges' names (8 bytes each). A repeated delivery therefore does not store an exchange again, and the session's samples stay when
-- samples are built again from later exchanges. An earlier release stored '1' instead of the names.
-- ARGV: the group's position in the stream (milliseconds, number), a time: sessions seen at that time or later stay; then any number of
-- sessions. Returns the number of deleted exchanges, and the number of sessions waiting for the group or for a settlement.
local ms, seq, before, gone, waiting = tonumber(arg()), tonumber(arg()), tonumber(arg()), 0, 0
local function acknowledged(m)
  local n = 0
  local list = call('HGETALL', m)
  for i = 1, #list, 2 do
    if string.sub(list[i], 1, 1) == ':' then
      local at, number = string.match(list[i + 1], '^(%d+)-(%d+)$')
      at, number = tonumber(at), tonumber(number)
      if at > ms or at == ms and number > seq then
        waiting = waiting + 1
        return false
      end
      n = n + 1
    end
  end
  return n > 0
end
while more() do
  local id = arg()
  local s, x = key('s', id), key('x', id)
  local n = call('HLEN', x)
  if n > 0 then
    local seen = call('ZSCORE', P .. 'seen', id)
    local v = call('HMGET', s, 'h', 'l')
    local closed = v[1] and string.sub(v[1], 17) == '1'
    if call('SISMEMBER', A .. 'unsettled', id .. N) == 1 then -- the settlement builds the samples from the exchanges
      waiting = waiting + 1
    elseif closed and not v[2] and seen and tonumber(seen) < before and acknowledged(key('m', id)) then
      local old = call('HGET', s, 'cool') or '1'
      call('HSET', s, 'cool', (old == '1' and '' or old) .. table.concat(call('HKEYS', x)))
      call('DEL', x)
      total('exchanges', -n)
      gone = gone + n
    end
  end
end
done()
return { gone, waiting }
