-- Deletes fields in a hash or, if no fields are given, the whole key.
-- ARGV: the key's name; then any number of fields.
local name = P .. arg()
if not more() then call('DEL', name) end
while more() do call('HDEL', name, arg()) end
return 1
