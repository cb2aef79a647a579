-- Moves the feedback that waits for keys to the sessions that have them.
-- ARGV, any number of: key (8 bytes), the same in hex, session, the most entries of a set. Answers of each key how many entries
-- changed the session's set, and behind the last one, as a number below 0, how many found no room.
local out, left = {}, 0
while more() do
  local k, name, id, most = arg(), arg(), arg(), arg()
  local p = P .. 'p:' .. name
  local list, changed = call('HGETALL', p), 0
  for i = 1, #list, 2 do
    local score = call('ZSCORE', P .. 'parked', k .. list[i]) or '0'
    local did = entry(id, score, list[i], list[i + 1], most)
    changed, left = changed + math.max(did, 0), left + math.min(did, 0)
    call('ZREM', P .. 'parked', k .. list[i])
  end
  call('DEL', p)
  out[#out + 1] = changed
end
done()
out[#out + 1] = left
return out
