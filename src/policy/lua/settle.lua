-- Ends the script that settles what was counted: takes it back as far as that can be, or charges what it cost beyond that.
--
-- KEYS  one for each tier, and one that remembers that this was done, unless it may be done again
-- ARGV  until when that is remembered at the least (0: it is not); 0 to take back, 1 to charge, 2 if nothing is left to
--       do, 3 to lower what is left to the costs at the most; the turn; when all but a leaky bucket counted it; the number of
--       tiers; for each its kernel's number, negative as for turns, and its constants (to charge: those of a policy without a
--       limit); to take back, for each the number of numbers that are known of the request there, and these: of a bucket
--       what the request left behind (TAT whole and part, sum of what was given back); then, if the turn was booked ahead,
--       the state that the booking found
-- Reply now, 1 if it was done (0: it had been done before), and for each tier the state then

local remember, act = tonumber(ARGV[1]), ARGV[2]
local tiers, place = tonumber(ARGV[5]), 6
local give_back, look, lower, charge, width, spaced, ticket = {}, {}, {}, {}, {}, {}, {}
for t = 1, tiers do
  local number = tonumber(ARGV[place])
  spaced[t] = number < 0
  local kernel = kernels[spaced[t] and -number or number]
  give_back[t], look[t], lower[t], charge[t] = kernel.make(place + 1)
  width[t] = kernel.width
  place = place + 1 + kernel.constants
end
if act == '0' then
  for t = 1, tiers do
    ticket[t] = {turn = tonumber(ARGV[3]), counted = tonumber(ARGV[4]), spaced = spaced[t]}
    local numbers = tonumber(ARGV[place])
    for i = 1, numbers do ticket[t][i] = tonumber(ARGV[place + i]) end
    place = place + 1 + numbers
  end
end

-- At the first time at which it passes: what is booked ahead comes first.
local function charge_one(key, check)
  local state = {}
  local passes, own = check(key, 1, false, state, 1)
  if refusal or state[1] < 0 then return end
  if passes == 0 then now = own end
  check(key, 1, true, state, 1)
  now = clock
end

reply[2] = 1
if remember > 0 then
  -- A minute at the least, for those who try again.
  local ttl = math.max(ceil((remember - clock) / 1000), 60000)
  local done = pcall('SET', KEYS[tiers + 1], '', 'NX', 'PX', format('%d', ttl))
  if refused(done) then return refusal end
  if not done then reply[2], act = 0, '2' end
end
for t = 1, tiers do
  if act == '0' then
    give_back[t](KEYS[t], ticket[t])
  elseif act == '1' then
    (charge[t] or charge_one)(KEYS[t], look[t])
  elseif act == '3' then
    lower[t](KEYS[t])
  end
  if refusal then
    if remember > 0 then call('DEL', KEYS[tiers + 1]) end
    return refusal
  end
end
local at = 3
for t = 1, tiers do
  look[t](KEYS[t], 0, false, reply, at)
  at = at + width[t]
end
return reply
