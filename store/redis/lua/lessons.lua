-- Changes the fleet's lessons, all of it or nothing: sets and deletes texts, appends to the log, counts the change and tells
-- whoever listens.
-- ARGV: the channel; then what must hold: 'at', version; 'was', name, text; 'not', name; then what is done: 'set', name, text;
-- 'del', name; 'log', event. Answers 'changed' where something does not hold, 'noted' where no text changed, else the version.
local lessons, channel = P .. 'lessons', arg()
local changed = false
while more() do
  local op, name = arg(), arg()
  -- 'at', 'was' and 'not' stand first: where the version or a text is another one than the writer has read, nothing is done.
  if op == 'at' then
    if (call('GET', P .. 'lessons-version') or '') ~= name then return 'changed' end
  elseif op == 'was' then
    if call('HGET', lessons, name) ~= arg() then return 'changed' end
  elseif op == 'not' then
    if call('HEXISTS', lessons, name) == 1 then return 'changed' end
  elseif op == 'log' then
    call('RPUSH', P .. 'lessons-log', name)
  elseif op == 'set' then
    call('HSET', lessons, name, arg())
    changed = true
  else
    call('HDEL', lessons, name)
    changed = true
  end
end
if not changed then return 'noted' end
-- The time makes a version differ from one that was given before and lost.
local time = call('TIME')
local n = string.match(call('GET', P .. 'lessons-version') or '0', '^%d+') + 1
local version = string.format('%.0f-%s%06d', n, time[1], tonumber(time[2]))
call('SET', P .. 'lessons-version', version)
call('PUBLISH', channel, version)
return version
