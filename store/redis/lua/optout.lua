-- Marks of sessions that opted out. Each is its name, its turns, its items and how long it is kept; the one of more items stands.
while more() do
  local mark = P .. 'optout:' .. string.format(digits, string.byte(arg(), 1, 16))
  local turns, items, ttl = arg(), arg(), arg()
  local old = call('GET', mark)
  if old and tonumber(string.match(old, ' (%d+)$')) > tonumber(items) then
    call('PEXPIRE', mark, ttl)
  else
    call('SET', mark, turns .. ' ' .. items, 'PX', ttl)
  end
end
return 1
