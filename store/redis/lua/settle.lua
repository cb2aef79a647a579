-- Applies settlement steps, in order. A step is applied if the session still has the step's old version. The step's deltas are then
-- added to the counters. A counter row is a hash for one scope and day. 'counters' lists the rows.
-- ARGV, any number of: session, old version, new version, settlement, feedback state, number of rows; for each row: digest,
-- name, number of deltas; for each delta: field, value; then the deltas for the log.
-- Returns for each step the call's number in the shard, or 0 if the step was not applied. A shard's log has an entry for each of the
-- last calls: the tenant and, unless they are too long, the deltas. If a number has no entry, readers know that the log is incomplete.
local maxCalls, maxBytes = 32, 32768
-- moved is the call's number; nil means that no step was applied so far.
local results, moved, log = {}, nil, {}
local function step()
  local id, from, to, applied, state, groups = arg(), arg(), arg(), arg(), arg(), tonumber(arg())
  local s = key('s', id)
  local v = call('HMGET', s, 'h', 'a', 'n', 'w', 'l')
  local version = v[2] and string.match(v[2], '^%d+') or '0'
  local ok = version == from
  if ok then
    if not moved then
      moved = call('HINCRBY', T, 'moved', 1)
      if sharded then call('ZADD', A .. 'moved', moved, N) end
    end
    mention(id, '0')
    call('HSET', s, 'a', to .. ' ' .. applied)
    if from == '0' then call('ZREM', P .. 'told', id) end
    call('HDEL', A .. 'aside', aside(id, '')) -- the step did not panic, so an earlier panic's mark is deleted
    if v[4] then
      undue(v[4], id)
      call('HDEL', s, 'w')
    end
    -- Feedback and exchanges that arrived after the step was computed wait for the next step.
    if (v[3] or '0') == state then
      settled(id)
      if v[5] then
        total('late', -tonumber(v[5]))
        call('HDEL', s, 'l')
      end
    else
      unsettled(id)
    end
    local head = v[1]
    if from == '0' and head and string.sub(head, 17) == '0' then
      call('HSET', s, 'h', string.sub(head, 1, 16) .. '1')
      undue(string.sub(head, 1, 8), id)
    end
  end
  for _ = 1, groups do
    local k, name, n = arg(), arg(), tonumber(arg())
    local c = P .. 'c:' .. k
    for _ = 1, n do
      local field, delta = arg(), arg()
      if ok and call('HINCRBY', c, field, delta) == 0 then call('HDEL', c, field) end
    end
    if ok then
      if call('EXISTS', c) == 1 then call('HSET', P .. 'counters', k, name) else call('HDEL', P .. 'counters', k) end
    end
  end
  local deltas = arg()
  if ok then log[#log + 1] = deltas end
  results[#results + 1] = ok and moved or 0
end
while more() do step() end
if moved and sharded then
  local deltas = table.concat(log)
  local command = { A .. 'log', 'MAXLEN', '=', maxCalls, moved .. '-1', 't', N }
  if #deltas <= maxBytes then command[8], command[9] = 'd', deltas end
  call('XADD', unpack(command))
end
done()
return results
