-- The end of full_kernels() for reservations: counts each check at the first time at which all its
-- kernels let it pass, if that is within the longest wait, which stands behind the constants; else
-- nowhere. The numbers are, for each of the equal checks, the time of its reservation, and for each
-- tier the state before, seen at that time (seen now, if nothing was reserved).

local max_wait = tonumber(ARGV[place])

local function run(first, wanted, into, at)
  local mended = false
  for _ = 1, wanted do
    local turn, ours, next = clock, true, at + 1
    for t = 1, tiers do
      local key = key_of(first, t)
      local passes, own, empty = check[t](key, 1, false, into, next)
      if refusal then return next, refusal end
      if into[next] == foreign then
        ours = false
        into[next] = unreadable(key)
      else
        if spaced[t] then own = empty elseif passes > 0 then own = clock end
        if own > turn then turn = own end
      end
      next = next + width[t]
    end
    into[at] = turn
    if ours and turn - clock <= max_wait then
      now, next = turn, at + 1
      for t = 1, tiers do
        check[t](key_of(first, t), 1, true, into, next)
        if refusal then return next, refusal end
        next = next + width[t]
      end
      now = clock
    elseif not mended then
      -- Otherwise a state far ahead of the clock would stay there for the next caller.
      mended = true
      for t = 1, tiers do
        check[t](key_of(first, t), 0, true, scratch, 1)
        if refusal then return next, refusal end
      end
    end
    at = next
  end
  return at
end
return place + 1, run
