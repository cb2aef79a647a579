-- Returns sessions that changed during a migration. The sessions stay in 'taken' until a later call names them, so that a killed
-- migration reads the sessions again. This script also runs while the tenant is frozen, which common.lua would refuse. Therefore P is
-- not the tenant's prefix; B is.
-- ARGV: the maximum number of sessions, the tenant's key prefix; then any number of migrated sessions.
local limit, B = tonumber(arg()), arg()
while more() do call('SREM', B .. 'taken', arg()) end
for _, id in ipairs(call('SRANDMEMBER', B .. 'dirty', limit)) do
  call('SREM', B .. 'dirty', id)
  call('SADD', B .. 'taken', id)
end
return call('SRANDMEMBER', B .. 'taken', limit)
