-- Parks feedback under a key until a session with the key is stored. If an entry has two values, the later value is kept.
-- ARGV: the tenant's maximum number of parked entries, maximum for one key, key (8 bytes), the key in hex, entry id (8 bytes), score,
-- value. Returns 0 if a maximum is reached, else 1.
local limit, maxOfKey, k, name, id, score, value = tonumber(arg()), tonumber(arg()), arg(), arg(), arg(), arg(), arg()
local p = P .. 'p:' .. name
if sharded then call('SADD', A .. 'parked', N) end
local old = call('HGET', p, id)
if old then
  if supersedes(value, old) then
    call('HSET', p, id, value)
    call('ZADD', P .. 'parked', score, k .. id)
  end
  return 1
end
if call('ZCARD', P .. 'parked') >= limit or call('HLEN', p) >= maxOfKey then return 0 end
call('HSET', p, id, value)
call('ZADD', P .. 'parked', score, k .. id)
return 1
