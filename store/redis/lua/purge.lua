-- Deletes parked feedback, oldest first.
-- ARGV: the upper time bound in ZRANGEBYSCORE syntax, the maximum number of entries. Returns the number of deleted entries.
local before, limit, n = arg(), arg(), 0
for _, member in ipairs(call('ZRANGEBYSCORE', P .. 'parked', '-inf', before, 'LIMIT', 0, limit)) do
  local p = P .. 'p:' .. string.format(string.rep('%02x', 8), string.byte(member, 1, 8))
  call('HDEL', p, string.sub(member, 9))
  call('ZREM', P .. 'parked', member)
  n = n + 1
end
unparked()
return n
