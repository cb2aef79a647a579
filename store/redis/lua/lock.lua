-- Locks with fencing tokens. A lock's value is its token, a blank and its owner; tokens only grow.
local op, lock, token, owner = arg(), P .. 'lock:' .. arg(), arg(), arg()
local held = call('GET', lock)
if op == 'take' then
  local ttl = arg()
  if held then
    local t, who = string.match(held, '^(%d+) (.*)$')
    if who ~= owner then return 0 end
    call('PEXPIRE', lock, ttl)
    return tonumber(t)
  end
  local n = call('INCR', P .. 'fence')
  call('SET', lock, n .. ' ' .. owner, 'PX', ttl)
  return n
end
if held ~= token .. ' ' .. owner then return 0 end
if op == 'renew' then
  call('PEXPIRE', lock, arg())
elseif op == 'free' then
  call('DEL', lock)
elseif op == 'set' then
  call('HSET', P .. 'values', arg(), arg())
end
return 1
