-- Moves what waits for keys to their sessions; without a session ('') it is handed out. Answers per key: how many entries
-- changed the session's set, or the list of entries.
local out = {}
while more() do
  local k, name, id = arg(), arg(), arg()
  local p = P .. 'p:' .. name
  local list, changed, values = call('HGETALL', p), 0, {}
  for i = 1, #list, 2 do
    local value = list[i + 1]
    if id == '' then
      values[#values + 1] = value
    else
      local score = call('ZSCORE', P .. 'parked', k .. list[i]) or '0'
      changed = changed + entry(id, score, list[i], value)
    end
    call('ZREM', P .. 'parked', k .. list[i])
  end
  call('DEL', p)
  out[#out + 1] = id == '' and values or changed
end
done()
return out
