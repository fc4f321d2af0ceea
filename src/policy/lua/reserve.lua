-- Ends the script of turns: each check is counted at the first time, not later than it will wait,
-- at which all its kernels let it pass; else in none.
--
-- KEYS  for each check as many as there are tiers
-- ARGV  how long to wait at the most; the number of tiers; for each its kernel's number, negative
--       if whoever passes has to wait until the bucket is empty, and its constants; then for each
--       check the number of equal ones (1 if left out)
-- Reply now, then for each check and each of the equal ones: its turn, and for each tier the state
-- before, as seen then (if
--       it was not booked: as seen now)

local max_wait, tiers = tonumber(ARGV[1]), tonumber(ARGV[2])
local check, width, spaced, place, scratch = {}, {}, {}, 3, {}
for t = 1, tiers do
  local number = tonumber(ARGV[place])
  spaced[t] = number < 0
  local kernel = kernels[spaced[t] and -number or number]
  check[t], width[t] = kernel.make(place + 1), kernel.width
  place = place + 1 + kernel.constants
end

local at = 2
for first = 1, #KEYS, tiers do
  local mended = false
  for n = 1, tonumber(ARGV[place] or 1) do
    local turn, ours = clock, true
    local into = at + 1
    for t = 1, tiers do
      local passes, own, empty = check[t](KEYS[first + t - 1], 1, false, reply, into)
      if refusal then return refusal end
      if reply[into] < 0 then
        ours = false
      else
        if spaced[t] then own = empty elseif passes > 0 then own = clock end
        if own > turn then turn = own end
      end
      into = into + width[t]
    end
    reply[at] = turn
    if ours and turn - clock <= max_wait then
      now, into = turn, at + 1
      for t = 1, tiers do
        check[t](KEYS[first + t - 1], 1, true, reply, into)
        if refusal then return refusal end
        into = into + width[t]
      end
      now = clock
    elseif not mended then
      -- Far ahead of the clock, a state would look as far away to whoever asks again.
      mended = true
      for t = 1, tiers do
        check[t](KEYS[first + t - 1], 0, true, scratch, 1)
        if refusal then return refusal end
      end
    end
    at = into
  end
  place = place + 1
end
return reply
