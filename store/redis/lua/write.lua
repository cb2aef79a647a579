-- Writes rows, echoes, exchanges and samples, in any number and order. Everything may be repeated.
-- ARGV, any number of: a letter for the operation, and the arguments that the operation's function reads. Returns 0 if a unit's row was
-- not written because another replica has written the row in the meantime, else 1.

-- row writes a session's row. The session's 'h' is the head: start (8 bytes), last use (8) and closed (1). 'd' is the data, and 'a' the
-- settlement. 'i' exists for a stand-in, the row of a session that began while the store did not answer. Any other row replaces a
-- stand-in.
local function row()
  local id, begun, seen, score, closed, standin, data, sequence = arg(), arg(), arg(), arg(), arg(), arg(), arg(), arg()
  local s = key('s', id)
  local v = call('HMGET', s, 'h', 'a', 'i')
  local head = v[1]
  if v[2] then closed = '1' end
  if not head then
    local early = call('HGET', s, 'w') -- the start that an earlier exchange has set
    if early then
      undue(early, id)
      call('HDEL', s, 'w')
    end
    call('HSET', s, 'h', begun .. seen .. closed, 'd', data)
    if standin == '1' then call('HSET', s, 'i', '1') end
    total('sessions', call('ZADD', P .. 'order', number(sequence), id))
    call('ZADD', P .. 'seen', score, id)
    if sharded then call('SADD', A .. 'tenants', N) end
    if closed == '0' then due(begun, id) end
    return
  end
  local was = { begun = string.sub(head, 1, 8), seen = string.sub(head, 9, 16), closed = string.sub(head, 17) }
  if was.closed == '1' then closed = '1' end
  local keepsStored = less(seen, was.seen)
  if (v[3] or '0') ~= standin then keepsStored = standin == '1' end
  if keepsStored then -- the new row is older, or a stand-in; only closing is applied
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

-- unit writes a unit's row if the stored data is still the data with which the row was merged. Several replicas can write this row.
local taken = 1
local function unit()
  local was = arg()
  local d = call('HGET', key('s', ARGV[at + 1]), 'd')
  if (d and redis.sha1hex(d) or '') == was then return row() end
  taken = 0
  for _ = 1, 8 do arg() end
end

-- echo adds a session to an echo. An echo's value has up to 20 pairs of time (8 bytes) and session (16 bytes), newest first, each
-- session once.
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

-- found writes a sample's session to the index.
local function found()
  local id, k = arg(), arg()
  call('HSET', index(k), k, id)
end

-- trail adds index entries, each a letter and a key (8 bytes), to a session's list. They are deleted with the session.
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

-- await ensures that an exchange becomes a sample. A settled session becomes unsettled, and a session without a row becomes due. 'w' is
-- such a session's start in the due list.
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

-- cooled reports whether a session's exchange was stored and then deleted (cool.lua).
local function cooled(id, k)
  local names, q = call('HGET', key('s', id), 'cool'), 0
  if not names then return false end
  repeat
    q = string.find(names, k, q + 1, true)
  until not q or q % #k == 1
  return q ~= nil
end

-- exchange stores an exchange. The value is the sequence number (16 digits) and the document.
local function exchange()
  local id, k, score, data, began, sequence = arg(), arg(), arg(), arg(), arg(), arg()
  mention(id, score)
  local x = key('x', id)
  if call('HEXISTS', x, k) == 1 or cooled(id, k) then return end
  local n = number(sequence)
  call('HSET', x, k, string.format('%016.0f', tonumber(n)) .. data)
  total('exchanges', 1)
  total('exchanges_ever', 1)
  await(id, began)
end

-- sample stores a sample. The stream entry id is the sequence number, so that the entries in all shards have one order.
local function sample()
  local id, score, name, doc = arg(), arg(), arg(), arg()
  local tenant, agent, family, created, sequence = arg(), arg(), arg(), arg(), arg()
  mention(id, score)
  local m = key('m', id)
  local old = call('HGET', m, name)
  if old then -- the sample was built again, with later feedback
    if old ~= doc and call('HEXISTS', key('s', id), 'cool') == 0 then call('HSET', m, name, doc) end
    return
  end
  local entry = call('XADD', P .. 'samples', sharded and number(sequence) .. '-0' or '*', 'sample_id', name, 'family', family,
    'tenant', tenant, 'agent', agent, 'session', string.format(digits, string.byte(id, 1, 16)), 'created_at', created,
    'at', score, 'key', m)
  call('HSET', m, name, doc, ':' .. name, entry)
  total('samples', 1)
  total('samples_ever', 1)
end

-- whole deletes all of a session's samples except the named ones.
local function whole()
  local id, n, keep = arg(), tonumber(arg()), {}
  for _ = 1, n do keep[arg()] = true end
  if call('HEXISTS', key('s', id), 'cool') == 1 then return end -- the exchanges are deleted, so no later build has all samples
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
