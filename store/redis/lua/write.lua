-- Writes rows, echoes, exchanges and samples, in any number and order. Everything may be repeated.
-- ARGV, any number of: a letter for the kind, and what the function of that kind reads. Answers 0 where a unit's row was not
-- written because it was not the expected one, else 1.

-- A session's head is begun (8 bytes), seen (8) and closed (1); 'd' is its data, 'a' what it was settled with; 'i' is there for a
-- stand-in, which yields to any row that is none.
local function row()
  local id, begun, seen, score, closed, standin, data, place = arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg()
  local s = key('s', id)
  local v = call('HMGET', s, 'h', 'a', 'i')
  local head = v[1]
  if v[2] then closed = '1' end
  if not head then
    local early = call('HGET', s, 'w') -- an exchange came first
    if early then
      undue(early, id)
      call('HDEL', s, 'w')
    end
    call('HSET', s, 'h', begun .. seen .. closed, 'd', data)
    if standin == '1' then call('HSET', s, 'i', '1') end
    total('sessions', call('ZADD', P .. 'order', number(place), id))
    call('ZADD', P .. 'seen', score, id)
    if sharded then call('SADD', A .. 'tenants', N) end
    if closed == '0' then due(begun, id) end
    return
  end
  local was = { begun = string.sub(head, 1, 8), seen = string.sub(head, 9, 16), closed = string.sub(head, 17) }
  if was.closed == '1' then closed = '1' end
  local yields = less(seen, was.seen)
  if (v[3] or '0') ~= standin then yields = standin == '1' end
  if yields then -- only that it was closed is news
    begun, seen = was.begun, was.seen
    if closed ~= was.closed then call('HSET', s, 'h', begun .. seen .. closed) end
  else
    call('HSET', s, 'h', begun .. seen .. closed, 'd', data)
    if v[3] and standin == '0' then call('HDEL', s, 'i') end
    if seen ~= was.seen then call('ZADD', P .. 'seen', score, id) end
  end
  if was.closed == '0' and (closed == '1' or begun ~= was.begun) then undue(was.begun, id) end
  if closed == '0' and begun ~= was.begun then due(begun, id) end
end

-- A unit's row is written by several: only over the one that it was merged with.
local taken = 1
local function unit()
  local was = arg()
  local d = call('HGET', key('s', ARGV[at + 1]), 'd')
  if (d and redis.sha1hex(d) or '') == was then return row() end
  taken = 0
  for _ = 1, 8 do arg() end
end

-- An echo's value is up to 20 times (8 bytes) with session (16), newest first, each session once.
local function echo()
  local id, k, time = arg(), arg(), arg()
  local hash = echoes(k)
  local old = call('HGET', hash, k) or ''
  local list, placed = {}, false
  for p = 1, #old, 24 do
    local t, sid = string.sub(old, p, p + 7), string.sub(old, p + 8, p + 23)
    if sid == id then
      if less(time, t) then time = t end
    end
  end
  for p = 1, #old, 24 do
    local t, sid = string.sub(old, p, p + 7), string.sub(old, p + 8, p + 23)
    if not placed and (sid == id or less(t, time)) and not (sid == id and less(time, t)) then
      list[#list + 1] = time .. id
      placed = true
    end
    if sid ~= id then list[#list + 1] = t .. sid end
  end
  if not placed then list[#list + 1] = time .. id end
  local new = table.concat(list, '', 1, math.min(#list, 20))
  if new ~= old then call('HSET', hash, k, new) end
end

-- found writes the session of a sample to the index.
local function found()
  local id, k = arg(), arg()
  call('HSET', index(k), k, id)
end

-- trail adds index entries of a session, each a letter and a key (8 bytes), to the list from which the entries are deleted.
local function trail()
  local id, score, entries = arg(), arg(), arg()
  mention(id, score)
  local k = key('k', id)
  local old, new = call('GET', k) or '', {}
  for p = 1, #entries, 9 do
    local e, q = string.sub(entries, p, p + 8), 1
    repeat
      q = string.find(old, e, q, true)
      local aligned = q and q % 9 == 1
      if q and not aligned then q = q + 1 end
    until not q or aligned
    if not q then new[#new + 1] = e end
  end
  if #new > 0 then call('APPEND', k, table.concat(new)) end
end

-- await sees to it that an exchange becomes a sample: its session is settled again when it was settled before, and one that
-- has no row is due all the same ('w' of the session is where it stands among those).
local function await(id, at)
  local s = key('s', id)
  local v = call('HMGET', s, 'h', 'a', 'w')
  call('HINCRBY', s, 'n', 1)
  if v[2] then
    unsettled(id)
    call('HINCRBY', s, 'l', 1)
    total('late', 1)
  elseif not v[1] and not v[3] then
    call('HSET', s, 'w', at)
    due(at, id)
  end
end

-- An exchange's value is its place in the order of writing (16 digits) and its document.
local function exchange()
  local id, k, score, data, began, place = arg(), arg(), arg(), arg(), arg(), arg()
  mention(id, score)
  local x = key('x', id)
  if call('HEXISTS', x, k) == 1 then return end
  local n = number(place)
  call('HSET', x, k, string.format('%016.0f', tonumber(n)) .. data)
  total('exchanges', 1)
  total('exchanges_ever', 1)
  await(id, began)
end

-- A sample's place in the order of writes is its place in the stream, so that the entries of all shards have one order.
local function sample()
  local id, score, name, doc = arg(), arg(), arg(), arg()
  local tenant, agent, family, created, place = arg(), arg(), arg(), arg(), arg()
  mention(id, score)
  local m = key('m', id)
  local old = call('HGET', m, name)
  if old then -- built again, with a rating that came later
    if old ~= doc and call('HEXISTS', key('s', id), 'cool') == 0 then call('HSET', m, name, doc) end
    return
  end
  local entry = call('XADD', P .. 'samples', sharded and number(place) .. '-0' or '*', 'sample_id', name, 'family', family, 'tenant', tenant, 'agent', agent,
    'session', string.format(digits, string.byte(id, 1, 16)), 'created_at', created, 'at', score, 'key', m)
  call('HSET', m, name, doc, ':' .. name, entry)
  total('samples', 1)
  total('samples_ever', 1)
end

-- whole deletes the samples of a session that are not among those that are named.
local function whole()
  local id, n, keep = arg(), tonumber(arg()), {}
  for _ = 1, n do keep[arg()] = true end
  if call('HEXISTS', key('s', id), 'cool') == 1 then return end -- the exchanges of the other samples have left the store
  local m = key('m', id)
  for _, name in ipairs(call('HKEYS', m)) do
    if string.sub(name, 1, 1) ~= ':' and not keep[name] then
      call('XDEL', P .. 'samples', call('HGET', m, ':' .. name))
      call('HDEL', m, name, ':' .. name)
      total('samples', -1)
    end
  end
end

while more() do
  local kind = arg()
  if kind == 'r' then row()
  elseif kind == 'u' then unit()
  elseif kind == 'e' then echo()
  elseif kind == 'x' then exchange()
  elseif kind == 'i' then found()
  elseif kind == 'k' then trail()
  elseif kind == 'm' then sample()
  elseif kind == 'w' then whole()
  else return redis.error_reply('ERR precept: unknown operation') end
end
done()
return taken
