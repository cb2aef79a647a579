-- Adds entries to sessions' feedback.
-- ARGV, any number of: session, score, id (8 bytes), value, the maximum number of entries in a session. Returns the result of entry()
-- for each entry.
local changed = {}
while more() do
  local id, score, k, value, maxEntries = arg(), arg(), arg(), arg(), arg()
  changed[#changed + 1] = entry(id, score, k, value, maxEntries)
end
done()
return changed
