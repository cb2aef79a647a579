-- Deletes sessions wherever they stand: row, exchanges, samples, feedback, marks, echoes and the index of samples.
-- ARGV: a time, at or after which a session was not seen if it is to go ('': whenever); then any number of sessions. Answers how
-- many are gone.
local before, gone = arg(), 0
local function drop(id)
  local score = call('ZSCORE', P .. 'seen', id)
  if not score or (before ~= '' and tonumber(score) >= tonumber(before)) then return end
  local s, x, m, f, k = key('s', id), key('x', id), key('m', id), key('f', id), key('k', id)
  local trail = call('GET', k) or ''
  local exchanges, samples, feedback = call('HLEN', x), 0, call('HLEN', f)
  local v = call('HMGET', s, 'h', 'w', 'l')
  local head = v[1]
  for _, field in ipairs(call('HKEYS', m)) do
    if string.sub(field, 1, 1) == ':' then
      samples = samples + 1
      call('XDEL', P .. 'samples', call('HGET', m, field))
    end
  end
  call('DEL', s, x, m, f, k)
  call('ZREM', P .. 'seen', id)
  call('ZREM', P .. 'order', id)
  call('SREM', P .. 'unsettled', id)
  call('ZREM', P .. 'told', id)
  if head then call('ZREM', P .. 'due', string.sub(head, 1, 8) .. id) end
  if v[2] then call('ZREM', P .. 'due', v[2] .. id) end
  if v[3] then total('late', -tonumber(v[3])) end
  for _, field in ipairs(call('HKEYS', P .. 'aside')) do
    if string.sub(field, 1, 16) == id then call('HDEL', P .. 'aside', field) end
  end
  for p = 1, #trail, 9 do
    local kind, v = string.sub(trail, p, p), string.sub(trail, p + 1, p + 8)
    if kind == 'm' then
      call('HDEL', index(v), v)
    elseif kind == 'e' then
      local hash = echoes(v)
      local old, kept = call('HGET', hash, v) or '', {}
      for q = 1, #old, 24 do
        if string.sub(old, q + 8, q + 23) ~= id then kept[#kept + 1] = string.sub(old, q, q + 23) end
      end
      if #kept == 0 then call('HDEL', hash, v) else call('HSET', hash, v, table.concat(kept)) end
    end
  end
  total('exchanges', -exchanges)
  total('samples', -samples)
  total('feedback', -feedback)
  gone = gone + 1
end
while more() do drop(arg()) end
done()
return gone
