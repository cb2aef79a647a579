-- Stores the shard count at the end of a migration, if the deadline has not passed by this server's clock. After the deadline the
-- tenants may accept writes again.
-- ARGV: the number, the deadline in milliseconds.
local n, deadline = arg(), tonumber(arg())
local time = call('TIME')
if tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000 > deadline then return 0 end
call('SET', P .. 'shards', n)
call('SET', P .. 'shardscopy', n)
return 1
