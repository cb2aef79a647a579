-- Adds tenants to the list of all tenants. While a migration switches to shards, the old layout gets no further tenant.
-- ARGV: the shard count that the caller knows; then any number of tenants.
local known = arg()
if known == '1' and (call('EXISTS', P .. 'frozen') == 1 or call('GET', P .. 'shards') ~= '1') then return redis.error_reply(refusal) end
while more() do call('SADD', P .. 'tenants', arg()) end
return 1
