-- Changes the fleet's lessons: sets and deletes texts, all of them or none, counts the change and tells whoever listens.
-- 'all' first means that the texts that follow are the whole bank.
local lessons, channel = P .. 'lessons', arg()
if arg() == 'all' then call('DEL', lessons) end
while more() do
  local op, name = arg(), arg()
  if op == 'set' then call('HSET', lessons, name, arg()) else call('HDEL', lessons, name) end
end
-- The time makes a version differ from one that was given before and lost.
local time = call('TIME')
local n = string.match(call('GET', P .. 'lessons-version') or '0', '^%d+') + 1
local version = string.format('%.0f-%s%06d', n, time[1], tonumber(time[2]))
call('SET', P .. 'lessons-version', version)
call('PUBLISH', channel, version)
return version
