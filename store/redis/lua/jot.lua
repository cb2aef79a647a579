-- Notes of sessions and of the tenant. One of a session is its id, a field and a text, and nothing is noted of a session that
-- is not there; one of the tenant is a key and a text, and an empty one is deleted.
while more() do
  if arg() == 's' then
    local s, field, text = key('s', arg()), arg(), arg()
    if call('HEXISTS', s, 'h') == 1 then call('HSET', s, field, text) end
  else
    local name, text = arg(), arg()
    if text == '' then call('HDEL', P .. 'notes', name) else call('HSET', P .. 'notes', name, text) end
  end
end
return 1
