-- Adds a batch to the counts of consulted lessons and sets the times of the last consultation. A repeated call with the same batch
-- changes nothing for an hour.
-- ARGV: the name of the batch; then any number of: slug of a lesson, count, time in microseconds. Returns 1, or 0 for a repeated
-- batch.
local batch = P .. 'consult:' .. arg()
if not call('SET', batch, 1, 'NX', 'PX', 3600000) then return 0 end
while more() do
  local slug, count, last = arg(), arg(), arg()
  call('HINCRBY', P .. 'consulted', slug, count)
  local old = call('HGET', P .. 'consulted-last', slug)
  if not old or tonumber(old) < tonumber(last) then call('HSET', P .. 'consulted-last', slug, last) end
end
return 1
