-- The sliding_window's part of the common path of several keys (lua/record_all.lua): keys that hold
-- two counts without reservations ahead, under a policy that has a limit and does not count what it
-- refuses.
--
-- Constants cost, window, limit

@look
local window, limit = constant[p + 2], constant[p + 3]
local start, current, previous, kept = 0, 0, 0, 0
if not stored then
  found[i] = string.rep('\0', 32)
elseif #stored == 32 then
  start, current, previous, kept = read('<dddd', stored)
else
  start = -1
end
local at = clock - clock % window
local left = at + window - clock
if start >= 0 and start < at + 2 * window and start % 1 == 0 and
   current >= 0 and current <= limit and current % 1 == 0 and
   previous >= 0 and previous <= limit and previous % 1 == 0 and
   kept >= start and kept <= exact and kept % grid == 0 then
  -- A clock behind the state is read as the state's own time.
  if start >= at + window then at, left = at + window, window end
  if start < at then
    previous = start >= at - window and current or 0
    start, current = at, 0
  end
  -- No product passes 2^53, so a quotient that is not whole is not rounded to a whole one.
  local weight = previous * left
  if weight <= exact then
    weight = weight / window
    if weight % 1 > 0 then weight = weight - weight % 1 + 1 end
    room = (limit - weight - current) / constant[p + 1]
    room = room - room % 1
    seen[p + 1], seen[p + 2], seen[p + 3], seen[p + 4] = start, current, previous, kept
  end
end
@write
local window, start = constant[p + 2], seen[p + 1]
local current, previous = seen[p + 2] + n * constant[p + 1], seen[p + 3]
local ends, text = start - start % window + 2 * window
if seen[p + 4] < ends then
  line = ends - ends % grid + grid
  text = pack('<dddd', start, current, previous, line)
else
  text = pack('<ddd', start, current, previous)
end
local length = pcall('SETRANGE', key, '0', text)
if length ~= 32 then failed = length end
@constants
-- The digit base and the largest count are what sliding_window::most() says.
local window = constant[p + 2]
local mantissa, exponent = math.frexp(4503599627370496 / window)
local base = 2 ^ (exponent - 1)
local most = math.min(math.floor(exact / window) * base, 4503599627370495)
own = {window, constant[p + 3], base, most, '0', constant[p + 1]}
