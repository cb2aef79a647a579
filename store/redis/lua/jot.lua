-- Notes something of sessions or of the tenant. Nothing is noted of a session that is not there; a note of the tenant without a
-- text is deleted.
-- ARGV, any number of: 's', session, field, text; or 'n', name, text.
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
