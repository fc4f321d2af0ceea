-- Makes reservations: counts each check at the first time at which all its kernels let it pass, if
-- the caller will wait that long; else nowhere. The end of full_kernels(), which takes the longest
-- wait behind the constants. For each of the equal checks, run() returns the time of its
-- reservation, and for each tier the state before, seen at that time (seen now, if nothing was
-- reserved).

local max_wait = tonumber(ARGV[place])

local function run(first, wanted)
  local found, at, mended = {}, 1, false
  for _ = 1, wanted do
    local turn, ours = clock, true
    local into = at + 1
    for t = 1, tiers do
      local key = key_of(first, t)
      local passes, own, empty = check[t](key, 1, false, found, into)
      if refusal then return found, refusal end
      if found[into] == foreign then
        ours = false
        found[into] = unreadable(key)
      else
        if spaced[t] then own = empty elseif passes > 0 then own = clock end
        if own > turn then turn = own end
      end
      into = into + width[t]
    end
    found[at] = turn
    if ours and turn - clock <= max_wait then
      now, into = turn, at + 1
      for t = 1, tiers do
        check[t](key_of(first, t), 1, true, found, into)
        if refusal then return found, refusal end
        into = into + width[t]
      end
      now = clock
    elseif not mended then
      -- A state that lies far ahead of the clock would look as far away to the next caller.
      mended = true
      for t = 1, tiers do
        check[t](key_of(first, t), 0, true, scratch, 1)
        if refusal then return found, refusal end
      end
    end
    at = into
  end
  return found, refusal
end
return place + 1, run
