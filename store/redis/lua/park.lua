-- Keeps feedback for a key that has not gone by yet.
-- ARGV: the most entries that wait of a tenant, the most of one key, key (8 bytes), the same in hex, id (8 bytes), score, value.
-- Answers 1, and 0 where too many wait.
local most, here, k, name, id, score, value = tonumber(arg()), tonumber(arg()), arg(), arg(), arg(), arg(), arg()
local p = P .. 'p:' .. name
local old = call('HGET', p, id)
if old then
  if supersedes(value, old) then
    call('HSET', p, id, value)
    call('ZADD', P .. 'parked', score, k .. id)
  end
  return 1
end
if call('ZCARD', P .. 'parked') >= most or call('HLEN', p) >= here then return 0 end
call('HSET', p, id, value)
call('ZADD', P .. 'parked', score, k .. id)
if sharded then call('SADD', A .. 'parked', N) end
return 1
