-- Entries of sessions; the answer says of each whether it changed its session's set.
local changed = {}
while more() do
  local id, score, k, value = arg(), arg(), arg(), arg()
  changed[#changed + 1] = entry(id, score, k, value)
end
done()
return changed
