-- Adds the old layout's sessions to a shard's lists, or removes sessions that were deleted from the old layout. A call may be repeated.
-- 'moving' has the start of each due session.
-- ARGV, any number of: session, and the session's score in 'seen' ('': the session was deleted), 'order' and 'told' ('': the session is
-- not in the list), a due session's start ('': not due), and '1' for an unsettled session.
local starts, top = P .. 'moving', tonumber(call('HGET', T, 'q') or 0)
while more() do
  local id, seen, order, told, begun, open = arg(), arg(), arg(), arg(), arg(), arg()
  local was = call('HGET', starts, id)
  if was then
    undue(was, id)
    call('HDEL', starts, id)
  end
  for list, score in pairs({ seen = seen, order = order, told = told }) do
    if score == '' then call('ZREM', P .. list, id) else call('ZADD', P .. list, score, id) end
  end
  if begun ~= '' then
    due(begun, id)
    call('HSET', starts, id, begun)
  end
  if open == '1' then unsettled(id) else settled(id) end
  if seen ~= '' then call('SADD', A .. 'tenants', N) end
  local newest = tonumber(call('ZSCORE', A .. 'told', N) or 0)
  if tonumber(told) and tonumber(told) > newest then call('ZADD', A .. 'told', told, N) end
  top = math.max(top, tonumber(order) or 0, tonumber(told) or 0)
end
if call('EXISTS', P .. 'seen') == 0 then call('SREM', A .. 'tenants', N) end
call('HSET', T, 'q', string.format('%.0f', top))
return 1
