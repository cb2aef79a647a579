-- Publishes priors, if the version they were computed from is the one in force.
-- ARGV: that version, the new one, the priors. Answers 1, and 0 where another one is in force.
local from, to, data = arg(), arg(), arg()
if (call('HGET', P .. 'priors', 'v') or '0') ~= from then return 0 end
call('HSET', P .. 'priors', 'v', to, 'd', data)
return 1
