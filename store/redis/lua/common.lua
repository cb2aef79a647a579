-- What every script begins with. KEYS[1] is the tenant's totals, <prefix>:{<tag>}:t; all other keys of the tenant differ from
-- it behind the tag only, and thus lie in the same slot. ARGV is read from left to right by arg().
local call, T = redis.call, KEYS[1]
local P = string.sub(T, 1, -2)

local at = 0
local function arg()
  at = at + 1
  return ARGV[at]
end
local function more() return at < #ARGV end

-- key is the key of one session's things.
local digits = string.rep('%02x', 16)
local function key(kind, id) return P .. kind .. ':' .. string.format(digits, string.byte(id, 1, 16)) end

-- less compares bytes. Lua's own comparison depends on the server's locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end

local totals = {}
local function total(name, n) totals[name] = (totals[name] or 0) + n end

-- number gives the next place in the order of writing: the wanted one, or a later one when that has gone by.
local first, last
local function number(wanted)
  if not last then
    last = tonumber(call('HGET', T, 'q') or 0)
    first = last
  end
  last = math.max(tonumber(wanted), last + 1)
  return string.format('%.0f', last)
end

-- done writes the totals and the last number that was given.
local function done()
  for name, n in pairs(totals) do
    if n ~= 0 then call('HINCRBY', T, name, n) end
  end
  if last ~= first then call('HSET', T, 'q', string.format('%.0f', last)) end
end

-- mention notes that something refers to a session, so that Forget and Retain find it.
local function mention(id, score) call('ZADD', P .. 'seen', 'NX', score, id) end

-- Small things stand together, in 16,384 hashes that the server can pack: which session a key went by in, and to which a
-- sample belongs.
local function bucket(kind, k)
  local low = string.byte(k, 7) * 256 + string.byte(k, 8)
  return P .. kind .. ':' .. string.format('%04x', low % 16384)
end
local function echoes(k) return bucket('e', k) end
local function index(k) return bucket('i', k) end

-- A value is its rank (44 bytes: time and hash, of which the greater one stands) and its JSON.
local function supersedes(value, old)
  return less(string.sub(old, 1, 44), string.sub(value, 1, 44))
end

-- unheard notes that a session got feedback which the counters do not know. 'n' of the session counts it. Closed sessions stand in
-- 'unsettled', open ones in 'told', in the order in which they last got some.
local function unheard(id)
  local s = key('s', id)
  call('HINCRBY', s, 'n', 1)
  if call('HEXISTS', s, 'a') == 1 then
    call('SADD', P .. 'unsettled', id)
  else
    local n = number(0)
    call('ZADD', P .. 'told', n, id)
    call('HSET', T, 'told', n)
  end
end

-- entry puts a feedback into a session's set, which has most entries at most, and so many bytes ('b' of the session). 1: that
-- changed it; 0: it did not; -1: the set is full.
local bytes = 16777216
local function entry(id, score, k, value, most)
  mention(id, score)
  local f = key('f', id)
  local old = call('HGET', f, k)
  if old and not supersedes(value, old) then return 0 end
  if not old and call('HLEN', f) >= tonumber(most) then return -1 end
  local s, more = key('s', id), #value - #(old or '')
  if more > 0 and tonumber(call('HGET', s, 'b') or 0) >= bytes then return -1 end
  call('HINCRBY', s, 'b', more)
  call('HSET', f, k, value)
  if not old then total('feedback', 1) end
  unheard(id)
  return 1
end
