-- The driver of checks that a cool-down may refuse. The common path of their kernel before it has
-- left those in `rare` to answer_all(), which is record_all.lua for that kernel and cool-downs.
--
-- KEYS    one per subject, then the cool-down of each, in the same order
-- counts  from `before` on, as for run_rare.lua. The argument in front of them is packed. Its last
--         96 bytes are what record_all.lua takes: two tiers of six doubles
-- Reply   now; then for each check the text that the common path has found, or what record_all.lua
--         says of it: a text, or an array

local n = #KEYS / 2
local keys, held, arguments, last = {}, {}, {string.sub(counts[before], -96)}, 0
for i = 1, n do
  if rare[i] then
    keys[last + 1], keys[last + 2] = KEYS[i], KEYS[n + i]
    held[last + 1], held[last + 2] = found[n + i], found[2 * n + i]
    arguments[last / 2 + 2] = counts[before + i] or '1'
    last = last + 2
  end
end
local found_left, states = answer_all(keys, arguments, held)
if found_left.err then return found_left end
local reply, first = {clock}, 1
for i = 1, n do
  if rare[i] then
    reply[i + 1] = states and states[first] or found_left[first] .. found_left[first + 1]
    first = first + 2
  else
    reply[i + 1] = found[i]
  end
end
return reply
