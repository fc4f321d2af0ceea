-- Stands in place of "@read" in a common path, for checks that a cool-down may refuse. KEYS has one
-- key per subject, then the cool-down of each, in the same order. The common path's packed argument
-- is longer, and run_left.lua comes in place of run_rare.lua.
--
-- The checks whose cool-down is there are left to run_left.lua: `found` gets an empty text for
-- them, which is no state. What their two keys hold is then at found[n + i] and found[2 * n + i].

n = n / 2
found = pcall('MGET', unpack(keys, 1, n))
if found.err then return found end
local there = pcall('EXISTS', unpack(keys, n + 1))
if there ~= 0 then
  if not tonumber(there) then return there end
  local cool_downs, texts = pcall('MGET', unpack(keys, n + 1)), 0
  for i = 1, n do
    if cool_downs[i] then texts = texts + 1 end
  end
  for i = 1, n do
    -- MGET says of a key of another type that it holds nothing. If there is one, any key that seems
    -- to hold nothing may be it.
    if cool_downs[i] or texts < there then
      found[n + i], found[2 * n + i], found[i] = found[i], cool_downs[i], ''
    end
  end
end
