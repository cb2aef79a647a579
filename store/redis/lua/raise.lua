-- Sets maxima where the given value is greater.
-- ARGV, any number of: name, value (8 bytes that compare like the number).
while more() do
  local field, value = arg(), arg()
  local old = call('HGET', P .. 'maxima', field)
  if not old or less(old, value) then call('HSET', P .. 'maxima', field, value) end
end
return 1
