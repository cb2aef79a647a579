-- This text precedes each script. KEYS[1] ends with 't', and the part before the 't' is the key prefix for one tenant in one shard. All
-- keys of a shard are in one slot. KEYS[2] never exists. arg() reads ARGV from left to right. The first argument is '+' and the tenant,
-- or '' in the old layout, in which each tenant is one shard.
local call = redis.call
local P = string.sub(KEYS[1], 1, -2)

-- If a script stopped at a denied command, some of its writes would be done, and a repeated call would skip the rest. Each script
-- therefore first checks the user's permissions for all 'commands' (script.go). Redis before 7 has no such check.
local denied = {}
for _, name in ipairs(redis.acl_check_cmd and commands or {}) do
  local known, allowed = pcall(redis.acl_check_cmd, name, name == 'publish' and ARGV[2] or KEYS[1])
  if not known then return redis.error_reply("ERR unknown command '" .. name .. "'") end
  if not allowed then denied[#denied + 1] = "'" .. name .. "'" end
end
if #denied > 0 then return redis.error_reply('NOPERM no permissions to run the ' .. table.concat(denied, ', ') .. ' command' .. (#denied > 1 and 's' or '')) end

local at = 1
local function arg()
  at = at + 1
  return ARGV[at]
end
local function more() return at < #ARGV end

-- A is the prefix for the lists with the sessions of all tenants in a shard. In these lists the tenant N follows each session. The old
-- layout has such lists for each tenant.
local sharded = ARGV[1] ~= ''
local N = string.sub(ARGV[1], 2)
local A = sharded and string.sub(P, 1, -18) .. 'all:' or P
local T = A .. 't'

-- A migration (migrate.go) moves the old layout to shards. While 'moving' exists, a script sets 'touched', and adds the sessions that
-- it may change to 'dirty'. While 'frozen' exists, as after the migration, the tenant's scripts change nothing.
local refusal, moving = 'TRYAGAIN precept: the store moves to shards', false
local isCommon = string.sub(P, -11) == ':{precept}:'
if not sharded and not isCommon then
  if call('EXISTS', P .. 'frozen') == 1 then return redis.error_reply(refusal) end
  moving = call('EXISTS', P .. 'moving') == 1
  if moving then call('SET', P .. 'touched', '1') end
end

-- key returns the key for one session's values.
local digits = string.rep('%02x', 16)
local noted = {}
local function key(kind, id)
  if moving and not noted[id] then
    noted[id] = true
    call('SADD', P .. 'dirty', id)
  end
  return P .. kind .. ':' .. string.format(digits, string.byte(id, 1, 16))
end

-- less compares bytes. Lua's comparison depends on the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local totals = {}
local function total(name, n) totals[name] = (totals[name] or 0) + n end

-- number assigns a sequence number. Sequence numbers order the writes. The result is the wanted number, or the last assigned number
-- plus 1 if that is greater.
local first, last
local function number(wanted)
  if not last then
    last = tonumber(call('HGET', T, 'q') or 0)
    first = last
  end
  last = math.max(tonumber(wanted), last + 1)
  return string.format('%.0f', last)
end

-- done writes the totals and the last assigned sequence number.
local function done()
  for name, n in pairs(totals) do
    if n ~= 0 then call('HINCRBY', T, name, n) end
  end
  if last ~= first then call('HSET', T, 'q', string.format('%.0f', last)) end
end

-- mention adds a session to 'seen', the list that deletions by tenant and by age read.
local function mention(id, score)
  call('ZADD', P .. 'seen', 'NX', score, id)
  if sharded then call('SADD', A .. 'tenants', N) end
end

-- due adds a session to the due list, and undue removes the session; begun is the session's start (8 bytes).
local function due(begun, id) call('ZADD', A .. 'due', 0, begun .. id .. N) end
local function undue(begun, id) call('ZREM', A .. 'due', begun .. id .. N) end
local function unsettled(id) call('SADD', A .. 'unsettled', id .. N) end
local function settled(id) call('SREM', A .. 'unsettled', id .. N) end

-- aside returns a mark's field: the session, the exchange and, in a sharded store, a zero byte and the tenant.
local function aside(id, exchange) return id .. exchange .. (sharded and '\0' .. N or '') end

-- Small values are in hashes that the server can pack: 16,384 for each tenant in the old layout, and 64 in each shard.
local function bucket(kind, k)
  if sharded then return P .. kind .. ':' .. string.format('%02x', string.byte(k, 7) % 64) end
  local low = string.byte(k, 7) * 256 + string.byte(k, 8)
  return P .. kind .. ':' .. string.format('%04x', low % 16384)
end
local function echoes(k) return bucket('e', k) end
local function index(k) return bucket('i', k) end

-- unparked removes the tenant from the tenants with parked feedback if the tenant has none.
local function unparked()
  if sharded and call('EXISTS', P .. 'parked') == 0 then call('SREM', A .. 'parked', N) end
end

-- supersedes reports whether a feedback entry's value replaces an old value. A value is a rank (44 bytes: time and hash) and JSON.
local function supersedes(value, old)
  return less(string.sub(old, 1, 44), string.sub(value, 1, 44))
end

-- gotFeedback records that a session got feedback that the counters do not contain. The session's 'n' counts such feedback. Closed
-- sessions are in 'unsettled', and open sessions in 'told', ordered by newest feedback.
local function gotFeedback(id)
  local s = key('s', id)
  call('HINCRBY', s, 'n', 1)
  if call('HEXISTS', s, 'a') == 1 then
    unsettled(id)
    return
  end
  local n = number(0)
  call('ZADD', P .. 'told', n, id)
  if sharded then call('ZADD', A .. 'told', n, N) else call('HSET', T, 'told', n) end
end

-- entry adds an entry to a session's feedback, or replaces the entry. It returns 1 if the feedback changed, 0 if not, and -1 if the
-- feedback has maxEntries entries or maxFeedbackBytes bytes (the session's 'b').
local maxFeedbackBytes = 16777216
local function entry(id, score, k, value, maxEntries)
  mention(id, score)
  local f = key('f', id)
  local old = call('HGET', f, k)
  if old and not supersedes(value, old) then return 0 end
  if not old and call('HLEN', f) >= tonumber(maxEntries) then return -1 end
  local s, more = key('s', id), #value - #(old or '')
  if more > 0 and tonumber(call('HGET', s, 'b') or 0) >= maxFeedbackBytes then return -1 end
  call('HINCRBY', s, 'b', more)
  call('HSET', f, k, value)
  if not old then total('feedback', 1) end
  gotFeedback(id)
  return 1
end
