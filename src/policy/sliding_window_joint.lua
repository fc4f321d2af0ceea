-- The sliding_window's part of the common path of several keys (lua/record_all.lua): keys that hold
-- two counts without reservations ahead, under a policy that has a limit and does not count what it
-- refuses.

@constants
cost_, window_, limit_,
@start
local begin_ = clock - clock % window_
@look
local start_, current_, previous_, kept_ = 0, 0, 0, 0
if not stored then
  found[@key] = string.rep('\0', 32)
elseif #stored == 32 then
  start_, current_, previous_, kept_ = read('<dddd', stored)
else
  start_ = -1
end
if start_ >= 0 and start_ < begin_ + 2 * window_ and start_ % 1 == 0 and
   current_ >= 0 and current_ <= limit_ and current_ % 1 == 0 and
   previous_ >= 0 and previous_ <= limit_ and previous_ % 1 == 0 and
   kept_ >= start_ and kept_ <= exact and kept_ % grid == 0 then
  local at, left = begin_, begin_ + window_ - clock
  -- A clock behind the state is read as the state's own time.
  if start_ >= at + window_ then at, left = at + window_, window_ end
  if start_ < at then
    previous_ = start_ >= at - window_ and current_ or 0
    start_, current_ = at, 0
  end
  -- No product passes 2^53, so a quotient that is not whole is not rounded to a whole one.
  local weight = previous_ * left
  if weight <= exact then
    weight = weight / window_
    if weight % 1 > 0 then weight = weight - weight % 1 + 1 end
    room = (limit_ - weight - current_) / cost_
  end
end
@refused
@write
current_ = current_ + pass * cost_
local ends, text = start_ - start_ % window_ + 2 * window_
if kept_ < ends then
  line = ends - ends % grid + grid
  text = pack('<dddd', start_, current_, previous_, line)
else
  text = pack('<ddd', start_, current_, previous_)
end
local length = pcall('SETRANGE', key, '0', text)
if length ~= 32 then failed = length end
@full
-- The digit base and the largest count are what sliding_window::most() says.
local mantissa, exponent = math.frexp(4503599627370496 / window_)
local base = 2 ^ (exponent - 1)
local most = math.min(math.floor(exact / window_) * base, 4503599627370495)
arguments = {window_, limit_, base, most, '0', cost_}
