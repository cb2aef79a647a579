-- Notes of sessions and of the tenant. Each is its kind (s or n), its id or key, and its text; an empty note of the tenant is
-- deleted, and nothing is noted of a session that is not there.
while more() do
  local kind, name, text = arg(), arg(), arg()
  if kind == 's' then
    local s = key('s', name)
    if call('HEXISTS', s, 'h') == 1 then call('HSET', s, 'jot', text) end
  elseif text == '' then
    call('HDEL', P .. 'notes', name)
  else
    call('HSET', P .. 'notes', name, text)
  end
end
return 1
