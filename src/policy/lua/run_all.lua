-- The end of full_kernels() for checks: a check passes at all its keys or counts nothing. The
-- number of checks may be look_only; the numbers are the states of all tiers before the checks.

local queues = 0
for t = 1, tiers do
  if spaced[t] then queues = queues + 1 end
end

-- If one leaky bucket delays a request, the others count it at that later time: otherwise later
-- requests there would go together with it. So each of equal checks has its own delay.
local function one_by_one(first, wanted)
  local done = 0
  while done < wanted do
    local start, empty = clock, {}
    for t = 1, tiers do
      local passes, _, ends = check[t](key_of(first, t), 1, false, scratch, 1)
      if refusal or passes == 0 then return done end
      empty[t] = ends
      if spaced[t] and ends > start then start = ends end
    end
    for t = 1, tiers do
      if spaced[t] and empty[t] < start then now = start end
      check[t](key_of(first, t), 1, true, scratch, 1)
      now = clock
      if refusal then return done end
    end
    done = done + 1
  end
  return done
end

local function run(first, wanted, into, at)
  local pass, passes = wanted, {}
  for t = 1, tiers do
    local key = key_of(first, t)
    passes[t] = check[t](key, wanted, false, into, at)
    if refusal then return at, refusal end
    if into[at] == foreign then into[at] = unreadable(key) end
    if passes[t] < pass then pass = passes[t] end
    at = at + width[t]
  end
  if pass > 0 and queues > 1 then
    one_by_one(first, wanted)
  elseif wanted ~= look_only then
    for t = 1, tiers do
      -- A tier that allows checks which another one refuses has nothing to write.
      if pass > 0 or passes[t] == 0 then
        check[t](key_of(first, t), pass, true, scratch, 1)
      end
      if refusal then break end
    end
  end
  return at, refusal
end
return place, run
