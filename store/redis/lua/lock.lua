-- Claims the right to work at something for a time, or gives it back. The value is a number, of which nobody asks any more, a
-- blank and the owner.
-- ARGV: 'take', name, owner, milliseconds; or 'free', name, owner. Answers 1, and 0 where somebody else has it.
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
