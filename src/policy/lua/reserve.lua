-- The driver that reserves: it counts each check at the first time at which all its kernels let it
-- pass, if the caller will wait that long; else nowhere.
--
-- KEYS   for each check one per tier
-- ARGV   the longest wait; the number of tiers; for each tier its kernel's number (see kernel_at)
--        and its constants; then for each check the number of equal ones (1 if left out)
-- Reply  now; then for each check and each of the equal ones the time of its reservation, and for
--        each tier the state before, seen at that time (seen now, if nothing was reserved)

local max_wait, tiers = tonumber(ARGV[1]), tonumber(ARGV[2])
local check, width, spaced, place, scratch = {}, {}, {}, 3, {}
for t = 1, tiers do
  local kernel
  kernel, spaced[t] = kernel_at(place)
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
      if reply[into] == foreign then
        ours = false
        reply[into] = unreadable(KEYS[first + t - 1])
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
      -- A state that lies far ahead of the clock would look as far away to the next caller.
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
