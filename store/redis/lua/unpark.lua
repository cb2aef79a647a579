-- Deletes parked feedback that was added to sessions. An entry with a later value stays.
-- ARGV, any number of: key (8 bytes), the key in hex, id (8 bytes), value.
while more() do
  local k, name, id, value = arg(), arg(), arg(), arg()
  local p = P .. 'p:' .. name
  if call('HGET', p, id) == value then
    call('HDEL', p, id)
    call('ZREM', P .. 'parked', k .. id)
  end
end
unparked()
return 1
