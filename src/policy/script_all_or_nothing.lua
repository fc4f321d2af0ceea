-- Ends the script of all kernels: checks of several keys each, which all pass or count nothing, at one instant.
--
-- KEYS  for each check as many as there are tiers
-- ARGV  the number of tiers; for each its kernel's number and constants; then for each check the number of equal ones (1 if
--       left out, 0 to look only)
-- Reply now, then for each check and each tier the state before

local tiers = tonumber(ARGV[1])
local check, width, place = {}, {}, 2
for t = 1, tiers do
  local kernel = kernels[tonumber(ARGV[place])]
  check[t], width[t] = kernel.make(place + 1), kernel.width
  place = place + 1 + kernel.constants
end

local scratch, at = {}, 2
for first = 1, #KEYS, tiers do
  local wanted = tonumber(ARGV[place] or 1)
  place = place + 1
  local pass, passes = wanted, {}
  for t = 1, tiers do
    local n = check[t](KEYS[first + t - 1], wanted, false, reply, at)
    if refusal then return refusal end
    if n < pass then pass = n end
    passes[t] = n
    at = at + width[t]
  end
  if wanted > 0 then
    for t = 1, tiers do
      -- Who lets checks pass that another refuses has nothing to write.
      if pass > 0 or passes[t] == 0 then check[t](KEYS[first + t - 1], pass, true, scratch, 1) end
      if refusal then return refusal end
    end
  end
end
return reply
