-- Deletes the index entries for deleted sessions.
-- ARGV, any number of: 'e' (an echo) or 'm' (a sample), key (8 bytes), session.
while more() do
  local kind, k, id = arg(), arg(), arg()
  if kind == 'm' then
    if call('HGET', index(k), k) == id then call('HDEL', index(k), k) end
  else
    local hash = echoes(k)
    local old, kept = call('HGET', hash, k) or '', {}
    for q = 1, #old, 24 do
      if string.sub(old, q + 8, q + 23) ~= id then kept[#kept + 1] = string.sub(old, q, q + 23) end
    end
    if #kept == 0 then call('HDEL', hash, k) else call('HSET', hash, k, table.concat(kept)) end
  end
end
return 1
