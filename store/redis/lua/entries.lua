-- Copies entries from the old sample stream into a shard's stream, in the same order. Entries up to the end of the new stream are
-- already there.
-- ARGV, any number of: session, entry, the entry's milliseconds, sample, family, tenant, agent, time, time in microseconds.
while more() do
  local id, entry, ms, name, family, tenant, agent, created, score = arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg()
  local m = key('m', id)
  local reply = redis.pcall('XADD', P .. 'samples', entry, 'sample_id', name, 'family', family, 'tenant', tenant, 'agent', agent,
    'session', string.format(digits, string.byte(id, 1, 16)), 'created_at', created, 'at', score, 'key', m)
  if type(reply) == 'table' and reply.err then
    if not string.find(reply.err, 'equal or smaller', 1, true) then return reply end
  else
    call('HSET', m, ':' .. name, entry)
  end
  if tonumber(call('HGET', T, 'q') or 0) < tonumber(ms) then call('HSET', T, 'q', ms) end
end
return 1
