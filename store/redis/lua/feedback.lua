-- Entries of sessions; the answer says of each what entry says.
local changed = {}
while more() do
  local id, score, k, value, most = arg(), arg(), arg(), arg(), arg()
  changed[#changed + 1] = entry(id, score, k, value, most)
end
done()
return changed
