-- Deletes sessions: row, exchanges, samples, feedback and marks. The list of the session's index entries, which are in other shards,
-- moves to the hash 'gone', until the caller has deleted the entries. A tenant without further sessions is removed from the shard's
-- tenants.
-- ARGV: a time: sessions seen at that time or later stay ('': no session stays); then any number of sessions. Returns the number of
-- deleted sessions.
local before, gone = arg(), 0
local tail = aside('', '')
local function drop(id)
  local score = call('ZSCORE', P .. 'seen', id)
  if not score or (before ~= '' and tonumber(score) >= tonumber(before)) then return end
  local s, x, m, f, k = key('s', id), key('x', id), key('m', id), key('f', id), key('k', id)
  local trail = call('GET', k)
  local exchanges, samples, feedback = call('HLEN', x), 0, call('HLEN', f)
  local v = call('HMGET', s, 'h', 'w', 'l')
  local head = v[1]
  for _, field in ipairs(call('HKEYS', m)) do
    if string.sub(field, 1, 1) == ':' then
      samples = samples + 1
      call('XDEL', P .. 'samples', call('HGET', m, field))
    end
  end
  if trail then call('HSET', A .. 'gone', id .. N, trail) end
  call('DEL', s, x, m, f, k)
  call('ZREM', P .. 'seen', id)
  total('sessions', -call('ZREM', P .. 'order', id))
  settled(id)
  call('ZREM', P .. 'told', id)
  if head then undue(string.sub(head, 1, 8), id) end
  if v[2] then undue(v[2], id) end
  if v[3] then total('late', -tonumber(v[3])) end
  for _, field in ipairs(call('HKEYS', A .. 'aside')) do
    local exchange = string.sub(field, 17, #field - #tail)
    if string.sub(field, 1, 16) == id and field == aside(id, exchange) and not string.find(exchange, '%z') then
      call('HDEL', A .. 'aside', field)
    end
  end
  total('exchanges', -exchanges)
  total('samples', -samples)
  total('feedback', -feedback)
  gone = gone + 1
end
while more() do drop(arg()) end
if sharded and call('EXISTS', P .. 'seen') == 0 then call('SREM', A .. 'tenants', N) end
done()
return gone
