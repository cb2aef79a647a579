-- Returns the number of shards, and stores the number if the store has none: the number that the caller knows, 1 for a store of
-- an earlier release, or the number for a new store.
-- A copy of the number keeps a store that lost the first key readable.
-- ARGV: the known number (0: none), the number of shards of a new store.
local known, new = arg(), arg()
local n = call('GET', P .. 'shards') or call('GET', P .. 'shardscopy')
if not n then
  n = known ~= '0' and known or call('EXISTS', P .. 'tenants') == 1 and '1' or new
  call('SET', P .. 'shards', n)
  call('SET', P .. 'shardscopy', n)
end
return tonumber(n)
