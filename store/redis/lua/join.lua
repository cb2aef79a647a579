-- Moves what waits for keys to their sessions. Answers per key how many entries changed the session's set.
local out = {}
while more() do
  local k, name, id = arg(), arg(), arg()
  local p = P .. 'p:' .. name
  local list, changed = call('HGETALL', p), 0
  for i = 1, #list, 2 do
    local score = call('ZSCORE', P .. 'parked', k .. list[i]) or '0'
    changed = changed + entry(id, score, list[i], list[i + 1])
    call('ZREM', P .. 'parked', k .. list[i])
  end
  call('DEL', p)
  out[#out + 1] = changed
end
done()
return out
