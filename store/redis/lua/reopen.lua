-- Finds sessions that an earlier release closed without a settlement, because the program or the store failed between the two writes,
-- and makes these sessions due again. Imported sessions are closed and never settled, and stay closed.
-- ARGV: any number of sessions. Returns the number of reopened sessions.
local n = 0
while more() do
  local id = arg()
  local s = key('s', id)
  local v = call('HMGET', s, 'h', 'a')
  local head = v[1]
  if head and not v[2] and string.sub(head, 17) == '1' and not string.find(call('HGET', s, 'd') or '', '"method":"import"', 1, true) then
    call('HSET', s, 'h', string.sub(head, 1, 16) .. '0')
    due(string.sub(head, 1, 8), id)
    n = n + 1
  end
end
return n
