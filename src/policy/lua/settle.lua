-- The driver that settles a request: at each tier it gives back, charges, lowers what is left, or
-- only looks. It does so once, and at all tiers; if a key holds something else, at no tier.
--
-- KEYS   one for each tier; then the marker of the settlement, unless it may be repeated
-- ARGV   the time until which the marker must exist (or no_marker); the time at which all buckets
--        but leaky ones counted the request; the number of tiers; for each tier its kernel's number
--        (see kernel_at), the act (see below), its constants (to charge: those of a policy without
--        a limit), and, to give back, how many numbers are known of the request there, and these:
--        what the request left behind in a bucket (TAT whole and part, sum of what had been given
--        back), and, for a reservation, the state that the reservation found
-- Reply  now; `done`, or not_done (it had been done before, or could not be); for each tier the
--        state after it

-- As policies::settle_act.
local looks, gives_back, charges, lowers = '0', '1', '2', '3'
-- As in policy/script_arguments.hpp.
local no_marker, not_done, done = 0, 0, 1

-- The kernel with the number at that place in ARGV, and whether a request that passes has to wait
-- until the bucket is empty: then the number is negative (policies::kernel_number).
local function kernel_at(place)
  local number = tonumber(ARGV[place])
  local leaky = number < 0
  return kernels[leaky and -number or number], leaky
end

local reply = {clock}
local remember, counted = tonumber(ARGV[1]), tonumber(ARGV[2])
local tiers, place, at = {}, 4, 3
for t = 1, tonumber(ARGV[3]) do
  local kernel, leaky = kernel_at(place)
  local tier = {key = KEYS[t], act = ARGV[place + 1], at = at}
  tier.give_back, tier.check, tier.lower, tier.charge = kernel.make(place + 2)
  place, at = place + 2 + kernel.constants, at + kernel.width
  if tier.act == gives_back then
    local ticket = {counted = counted, leaky = leaky}
    local numbers = tonumber(ARGV[place])
    for i = 1, numbers do ticket[i] = tonumber(ARGV[place + i]) end
    place, tier.ticket = place + 1 + numbers, ticket
  end
  tiers[t] = tier
end

-- Charges at the first time at which the cost passes, so behind the reservations ahead.
local function charge_one(tier)
  local passes, own = tier.check(tier.key, 1, false, {}, 1)
  if passes == 0 then now = own end
  tier.check(tier.key, 1, true, {}, 1)
  now = clock
end

-- All are looked at before the first is changed.
reply[2] = not_done
local ours = true
for t, tier in ipairs(tiers) do
  tier.check(tier.key, 0, false, reply, tier.at)
  if refusal then return refusal end
  if reply[tier.at] == foreign then
    ours = false
    reply[tier.at] = unreadable(tier.key)
  end
end
if not ours then return reply end
if remember ~= no_marker then
  -- A minute at the least: a caller may try again.
  local ttl = math.max(ceil((remember - clock) / 1000), 60000)
  local marked = pcall('SET', KEYS[#tiers + 1], '', 'NX', 'PX', format('%d', ttl))
  if refused(marked) then return refusal end
  if not marked then return reply end
end
reply[2] = done
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
