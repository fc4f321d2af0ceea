-- Ends the script that settles what was counted: at each tier it gives back, charges, lowers what
-- is left, or only looks; once, and at all tiers or, if a key holds something else, at none.
--
-- KEYS  one for each tier, and one that remembers that this was done, unless it may be done again
-- ARGV  until when that is remembered at the least (0: it is not); the turn; when all but a leaky
--       bucket counted it; the number of tiers; for each its kernel's number, negative as for
--       turns, the act (below), and its constants (to charge: those of a policy without a limit);
--       to give back, then the number of numbers that are known of the request there, and these: of
--       a bucket what the request left behind (TAT whole and part, sum of what was given back);
--       then, if the turn was booked ahead, the state that the booking found
-- Reply now, 1 if it was done (0: it had been done before, or could not be), and for each tier the
--       state then

-- As policies::settle_act.
local looks, gives_back, charges, lowers = '0', '1', '2', '3'

local remember, turn, counted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local tiers, place, at = {}, 5, 3
for t = 1, tonumber(ARGV[4]) do
  local number = tonumber(ARGV[place])
  local kernel = kernels[number < 0 and -number or number]
  local tier = {key = KEYS[t], act = ARGV[place + 1], at = at}
  tier.give_back, tier.check, tier.lower, tier.charge = kernel.make(place + 2)
  place, at = place + 2 + kernel.constants, at + kernel.width
  if tier.act == gives_back then
    local ticket = {turn = turn, counted = counted, spaced = number < 0}
    local numbers = tonumber(ARGV[place])
    for i = 1, numbers do ticket[i] = tonumber(ARGV[place + i]) end
    place, tier.ticket = place + 1 + numbers, ticket
  end
  tiers[t] = tier
end

-- At the first time at which it passes: what is booked ahead comes first.
local function charge_one(tier)
  local passes, own = tier.check(tier.key, 1, false, {}, 1)
  if passes == 0 then now = own end
  tier.check(tier.key, 1, true, {}, 1)
  now = clock
end

-- All are looked at before the first is changed.
reply[2] = 0
local ours = true
for t, tier in ipairs(tiers) do
  tier.check(tier.key, 0, false, reply, tier.at)
  if refusal then return refusal end
  ours = ours and reply[tier.at] >= 0
end
if not ours then return reply end
if remember > 0 then
  -- A minute at the least, for those who try again.
  local ttl = math.max(ceil((remember - clock) / 1000), 60000)
  local done = pcall('SET', KEYS[#tiers + 1], '', 'NX', 'PX', format('%d', ttl))
  if refused(done) then return refusal end
  if not done then return reply end
end
reply[2] = 1
for t, tier in ipairs(tiers) do
  if tier.act == gives_back then
    tier.give_back(tier.key, tier.ticket)
  elseif tier.act == lowers then
    tier.lower(tier.key)
  elseif tier.act == charges then
    if tier.charge then tier.charge(tier.key) else charge_one(tier) end
  end
  if tier.act ~= looks then tier.check(tier.key, 0, false, reply, tier.at) end
end
return reply
