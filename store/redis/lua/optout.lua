-- Stores marks on opted-out sessions. If a session has two marks, the mark with more items is kept.
-- ARGV, any number of: mark name (16 bytes), turns, items, the mark's life in milliseconds.
if isCommon and (call('EXISTS', P .. 'frozen') == 1 or call('GET', P .. 'shards') ~= '1') then return redis.error_reply(refusal) end
moving = isCommon and call('EXISTS', P .. 'moving') == 1
while more() do
  local mark = key('optout', arg())
  local turns, items, ttl = arg(), arg(), arg()
  local old = call('GET', mark)
  if old and tonumber(string.match(old, ' (%d+)$')) > tonumber(items) then
    call('PEXPIRE', mark, ttl)
  else
    call('SET', mark, turns .. ' ' .. items, 'PX', ttl)
  end
end
return 1
