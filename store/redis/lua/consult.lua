-- Adds a batch to the consultation counts by lesson, and sets the time at which each lesson was last consulted. A repeated call with
-- the same batch changes nothing for an hour.
-- ARGV: the batch name; then any number of: lesson slug, count, time in microseconds. Returns 1, or 0 for a repeated batch.
local batch = P .. 'consult:' .. arg()
if not call('SET', batch, 1, 'NX', 'PX', 3600000) then return 0 end
while more() do
  local slug, count, last = arg(), arg(), arg()
  call('HINCRBY', P .. 'consulted', slug, count)
  local old = call('HGET', P .. 'consulted-last', slug)
  if not old or tonumber(old) < tonumber(last) then call('HSET', P .. 'consulted-last', slug, last) end
end
return 1
