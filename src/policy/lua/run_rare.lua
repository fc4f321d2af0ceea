-- The driver behind a common path, which has left the keys in `rare` to the full kernel, or all
-- keys if there is no `rare`.
--
-- KEYS    one per subject
-- counts  from `before` on, for each key the number of equal checks (1 if left out, or look_only)
-- Reply   now; then for each key the text that the common path has found, or an array: the state
--         before the checks

for i = 1, #KEYS do
  if rare and not rare[i] then
    reply[i + 1] = found[i]
  else
    local checks, state = tonumber(counts[before + i] or 1), {}
    check(KEYS[i], checks, checks ~= look_only, state, 1)
    if refusal then return refusal end
    if state[1] == foreign then state[1] = unreadable(KEYS[i]) end
    reply[i + 1] = state
  end
end
return reply
