-- Adds up how often lessons were consulted, and notes when last, once for each batch: a batch that is told again within an hour
-- was told before. ARGV: the batch's name; then of each lesson its slug, the count and the time in microseconds.
local batch = P .. 'consult:' .. arg()
if not call('SET', batch, 1, 'NX', 'PX', 3600000) then return 0 end
while more() do
  local slug, count, last = arg(), arg(), arg()
  call('HINCRBY', P .. 'consulted', slug, count)
  local old = call('HGET', P .. 'consulted-last', slug)
  if not old or tonumber(old) < tonumber(last) then call('HSET', P .. 'consulted-last', slug, last) end
end
return 1
