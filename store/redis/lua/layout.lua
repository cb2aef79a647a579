-- Returns the shard count, and stores a count if the store has none: the caller's known count, 1 for an earlier release's store, or the
-- count for a new store. The count is stored under two keys, so that a store that has lost the first key stays readable.
-- ARGV: the known count (0: none), the shard count for a new store.
local known, new = arg(), arg()
local n = call('GET', P .. 'shards') or call('GET', P .. 'shardscopy')
if not n then
  n = known ~= '0' and known or call('EXISTS', P .. 'tenants') == 1 and '1' or new
  call('SET', P .. 'shards', n)
  call('SET', P .. 'shardscopy', n)
end
return tonumber(n)
