-- Sets aside the sessions and exchanges at which a step panicked, and readmits sessions. Marks are in the hash 'aside', by session and
-- exchange. A mark is a state, a count (6 digits) and a document. The state is 1 for a session that is set aside, 0 for a readmitted
-- session, and 2 for an exchange.
-- ARGV, any number of: 'out', session, exchange ('': the session itself), document, score; or 'in', session, and the number of tries
-- from which a session stays set aside. Returns the number of readmitted sessions.
local n = 0
local marks = A .. 'aside'

-- startOfOpen returns a session's start, or nil if the session is not open.
local function startOfOpen(id)
  local v = call('HMGET', key('s', id), 'h', 'w', 'a')
  if v[3] then return nil end
  if v[1] then return string.sub(v[1], 17) == '0' and string.sub(v[1], 1, 8) or nil end
  return v[2]
end

local function setAside()
  local id, exchange, doc, score = arg(), arg(), arg(), arg()
  mention(id, score)
  local field = aside(id, exchange)
  local old = call('HGET', marks, field)
  local tries = old and tonumber(string.sub(old, 2, 7)) or 0
  call('HSET', marks, field, (exchange == '' and '1' or '2') .. string.format('%06d', tries + 1) .. doc)
  if exchange == '' then
    local begun = startOfOpen(id)
    if begun then undue(begun, id) end
    settled(id)
  end
end

-- readmit readmits a session that was set aside fewer than maxTries times.
local function readmit()
  local id, maxTries = arg(), tonumber(arg())
  local value = call('HGET', marks, aside(id, ''))
  if value and string.sub(value, 1, 1) == '1' and tonumber(string.sub(value, 2, 7)) < maxTries then
    call('HSET', marks, aside(id, ''), '0' .. string.sub(value, 2))
    local begun = startOfOpen(id)
    if begun then due(begun, id) end
    if call('HEXISTS', key('s', id), 'a') == 1 then unsettled(id) end
    n = n + 1
  end
end

while more() do
  if arg() == 'out' then setAside() else readmit() end
end
done()
return {n}
