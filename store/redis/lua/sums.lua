-- Adds the totals of a tenant in the old layout to a shard's totals, once. A repeated call adds the difference. Also adds the tenant to
-- the tenants with parked feedback, or removes the tenant from them.
-- ARGV, any number of: total, number.
while more() do
  local name, n = arg(), arg()
  total(name, tonumber(n) - tonumber(call('HGET', P .. 'movingsums', name) or 0))
  call('HSET', P .. 'movingsums', name, n)
end
if call('EXISTS', P .. 'parked') == 1 then call('SADD', A .. 'parked', N) else call('SREM', A .. 'parked', N) end
done()
return 1
