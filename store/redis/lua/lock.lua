-- Acquires, renews or ends a lease. The key's value is a number, a space and the owner. Only earlier releases use the number.
-- ARGV: 'take', name, owner, milliseconds; or 'free', name, owner. Returns 0 if 'take' finds that another owner holds the lease, else
-- 1.
local op, lock, owner = arg(), P .. 'lock:' .. arg(), arg()
local held = call('GET', lock)
local mine = held and string.match(held, '^%d+ (.*)$') == owner
if op == 'free' then
  if mine then call('DEL', lock) end
  return 1
end
if held and not mine then return 0 end
call('SET', lock, '1 ' .. owner, 'PX', arg())
return 1
