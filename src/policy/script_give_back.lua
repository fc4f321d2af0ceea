-- Ends the script that takes a counted request back, as far as it can be.
--
-- KEYS  one for each tier
-- ARGV  its turn; of a single bucket when it would have been empty again (else 0); 1 if no other limiter's turns are in these
--       keys; the number of tiers; for each its kernel's number, negative as for turns, and its constants
-- Reply now

local turn, after, alone = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local place, held = 5, 0
local give_back, spaced = {}, {}
for t = 1, #KEYS do
  local number = tonumber(ARGV[place])
  spaced[t] = number < 0
  local kernel = kernels[spaced[t] and -number or number]
  local look
  give_back[t], look = kernel.make(place + 1)
  -- A hold's only number is until when it lasts.
  if kernel.holds then
    local state = {}
    look(KEYS[t], 0, false, state, 1)
    if state[1] > held then held = state[1] end
  end
  place = place + 1 + kernel.constants
end
for t = 1, #KEYS do
  give_back[t](KEYS[t], turn, after, alone, held, spaced[t])
  if refusal then return refusal end
end
return reply
