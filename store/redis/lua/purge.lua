-- Gives up on some of the feedback that waits.
-- ARGV: the time up to which, as ZRANGEBYSCORE has it; how many at most. Answers how many went.
local before, most, n = arg(), arg(), 0
for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'parked', '-inf', before, 'LIMIT', 0, most)) do
  local p = P .. 'p:' .. string.format(string.rep('%02x', 8), string.byte(member, 1, 8))
  call('HDEL', p, string.sub(member, 9))
  call('ZREM', P .. 'parked', member)
  n = n + 1
end
unparked()
return n
