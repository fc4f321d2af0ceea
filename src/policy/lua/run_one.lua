-- The driver of one kernel, which takes `constants` numbers and replies with `width`: it answers
-- checks of one or more keys at one instant, each key on its own.
--
-- KEYS   one per subject
-- ARGV   the kernel's constants; then for each key the number of equal checks (1 if left out,
--        or look_only)
-- Reply  now; then for each key the state before the checks

local reply = {clock}
for i = 1, #KEYS do
  local checks = tonumber(ARGV[constants + i] or 1)
  local at = width * (i - 1) + 2
  check(KEYS[i], checks, checks ~= look_only, reply, at)
  if refusal then return refusal end
  if reply[at] == foreign then reply[at] = unreadable(KEYS[i]) end
end
return reply
