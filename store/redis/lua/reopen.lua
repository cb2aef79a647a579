-- Makes sessions due again that a release before called closed although they were never settled, because the program or the
-- store failed in between. What was taken in from elsewhere is closed and counts nowhere.
-- ARGV: any number of sessions. Answers how many are open again.
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
