-- Claims: a lock's value is a number, of which nobody asks any more, a blank and its owner.
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
