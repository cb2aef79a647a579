-- Returns sessions that changed during a migration. The sessions stay in 'taken' until a later call names them: a migration that was
-- killed reads the sessions again. This script runs while the tenant is frozen, so its keys are not those of the tenant's scripts.
-- ARGV: the most sessions, the prefix of the keys; then any number of migrated sessions.
local most, B = tonumber(arg()), arg()
while more() do call('SREM', B .. 'taken', arg()) end
for _, id in ipairs(call('SRANDMEMBER', B .. 'dirty', most)) do
  call('SREM', B .. 'dirty', id)
  call('SADD', B .. 'taken', id)
end
return call('SRANDMEMBER', B .. 'taken', most)
