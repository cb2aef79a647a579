-- Gives up on some of the entries with a time up to a bound, as ZRANGEBYSCORE has it. Answers how many.
local before, most, n = arg(), arg(), 0
for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'parked', '-inf', before, 'LIMIT', 0, most)) do
  local p = P .. 'p:' .. string.format(string.rep('%02x', 8), string.byte(member, 1, 8))
  call('HDEL', p, string.sub(member, 9))
  call('ZREM', P .. 'parked', member)
  n = n + 1
end
return n
