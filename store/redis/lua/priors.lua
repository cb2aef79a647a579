-- Publishes priors if the current version is the version from which the priors were computed.
-- ARGV: the old version, the new version, the priors. Returns 0 if the current version is not the old version, else 1.
local from, to, data = arg(), arg(), arg()
if (call('HGET', P .. 'priors', 'v') or '0') ~= from then return 0 end
call('HSET', P .. 'priors', 'v', to, 'd', data)
return 1
