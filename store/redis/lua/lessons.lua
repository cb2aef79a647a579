-- Changes the fleet's lessons if all conditions hold: sets and deletes texts, appends to the audit log, and publishes the new version.
-- ARGV: the channel; then any number of conditions: 'at', version; 'was', name, text; 'not', name (no such text); then any number of
-- changes: 'set', name, text; 'del', name; 'log', event. Returns 'changed' if a condition does not hold, 'noted' if no text is set or
-- deleted, else the new version.
local lessons, channel = P .. 'lessons', arg()
local changed = false
while more() do
  local op, name = arg(), arg()
  -- All conditions precede all changes, so that a failing condition leaves the lessons unchanged.
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
-- After data loss the numbers start at 1 again. The time makes the new versions differ from the lost versions.
local time = call('TIME')
local n = string.match(call('GET', P .. 'lessons-version') or '0', '^%d+') + 1
local version = string.format('%.0f-%s%06d', n, time[1], tonumber(time[2]))
call('SET', P .. 'lessons-version', version)
call('PUBLISH', channel, version)
return version
