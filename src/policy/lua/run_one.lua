-- The driver of one kernel: answers checks of one or more keys at one instant, each key on its own:
-- the keys in `rare`, which a common path has left, or all keys if there is no `rare`. A state has
-- `width` numbers.
--
-- KEYS    one per subject
-- counts  behind the first `before`, for each key the number of equal checks (1 if left out, or
--         look_only)
-- Reply   now; then for each key the text that the common path has found, or the numbers of the
--         state before the checks

local reply, at = {clock}, 2
for i = 1, #KEYS do
  if rare and not rare[i] then
    reply[at], at = found[i], at + 1
  else
    local checks = tonumber(counts[before + i] or 1)
    check(KEYS[i], checks, checks ~= look_only, reply, at)
    if refusal then return refusal end
    if reply[at] == foreign then reply[at] = unreadable(KEYS[i]) end
    at = at + width
  end
end
return reply
