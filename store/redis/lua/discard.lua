-- Deletes fields of a hash, or without fields the key.
-- ARGV: the name of the key; then any number of fields.
local name = P .. arg()
if not more() then call('DEL', name) end
while more() do call('HDEL', name, arg()) end
return 1
