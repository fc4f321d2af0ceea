-- Ends the script that settles what was counted: takes it back as far as that can be, or charges what it cost beyond that.
--
-- KEYS  one for each tier, and one that remembers that this was done, unless it may be done again
-- ARGV  until when that is remembered at the least (0: it is not); 0 to take back, 1 to charge, 2 if nothing is left to
--       do, 3 to lower what is left to the costs at the most; the turn; when all but a leaky bucket counted it; when a
--       bucket was to be empty again (0 if not known), and by how much less than that a later request would have made it
--       later; 1 if no other limiter's turns are in these keys, 2 if moreover all of it is taken back; the number of tiers;
--       for each its kernel's number, negative as for turns, and its constants (to charge: those of a policy without a limit)
-- Reply now, 1 if it was done (0: it had been done before), and for each tier the state then

local remember, act = tonumber(ARGV[1]), ARGV[2]
local turn, counted, after = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local unit, whole_one = ARGV[7] ~= '0' and tonumber(ARGV[6]), ARGV[7] == '2'
local tiers, place, held = tonumber(ARGV[8]), 9, 0
local give_back, look, lower, charge, width, spaced = {}, {}, {}, {}, {}, {}
for t = 1, tiers do
  local number = tonumber(ARGV[place])
  spaced[t] = number < 0
  local kernel = kernels[spaced[t] and -number or number]
  give_back[t], look[t], lower[t], charge[t] = kernel.make(place + 1)
  width[t] = kernel.width
  -- A hold's only number is until when it lasts.
  if kernel.holds then
    local state = {}
    look[t](KEYS[t], 0, false, state, 1)
    if state[1] > held then held = state[1] end
  end
  place = place + 1 + kernel.constants
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
    give_back[t](KEYS[t], spaced[t] and turn or counted, after, unit, held, spaced[t], whole_one)
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
