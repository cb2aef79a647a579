-- Adds feedback to the sets of sessions.
-- ARGV, any number of: session, score, id (8 bytes), value, the maximum number of entries of a set. Returns the result of entry() for
-- each feedback.
local changed = {}
while more() do
  local id, score, k, value, maxEntries = arg(), arg(), arg(), arg(), arg()
  changed[#changed + 1] = entry(id, score, k, value, maxEntries)
end
done()
return changed
