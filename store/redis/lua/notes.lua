-- Stores texts for sessions or for the tenant. A text for a missing session is dropped; a tenant's note without a text is deleted.
-- ARGV, any number of: 's', session, field, text; or 'n', hash, name, text.
while more() do
  if arg() == 's' then
    local s, field, text = key('s', arg()), arg(), arg()
    if call('HEXISTS', s, 'h') == 1 then call('HSET', s, field, text) end
  else
    local hash, name, text = P .. arg(), arg(), arg()
    if text == '' then call('HDEL', hash, name) else call('HSET', hash, name, text) end
  end
end
return 1
