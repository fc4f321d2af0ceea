-- The sliding_window's part of the common path, of one key (lua/record_one.lua) and of several
-- (lua/record_all.lua): keys that hold two counts without reservations ahead, or nothing, under a
-- policy that has a limit and does not count what it refuses. It answers with the 32 bytes that a
-- key held, or zeros.

@constants
cost_, window_, limit_,
@start
-- `rest_` is how long the previous window still weighs, and `most_` the largest count that can be
-- weighed then: no product passes 2^53, so a quotient that is not whole is not rounded to a whole
-- one.
local begin_ = clock - clock % window_
local rest_ = begin_ + window_ - clock
local most_ = exact / rest_
if most_ > limit_ then most_ = limit_ end
@state
local text_ = stored
if not stored then
  text_ = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  found[@key] = text_
elseif #stored ~= 32 then
  text_ = '--------------------------------'  -- no whole numbers
end
local start_, current_, previous_, kept_ = read('<dddd', text_)
@usual
-- The window is open, and its TTL lasts.
not counted and start_ == begin_ and kept_ >= begin_ + 2 * window_ and kept_ <= exact and
   kept_ % grid == 0 and current_ >= 0 and current_ <= limit_ and current_ % 1 == 0 and
   previous_ >= 0 and previous_ <= most_ and previous_ % 1 == 0
@quick
current_ = current_ + cost_
if previous_ * rest_ / window_ <= limit_ - current_ then
  local length = pcall('SETRANGE', keys[@key], '8', pack('<d', current_))
  if length ~= 32 then return length end
end
@look
if start_ >= 0 and start_ < begin_ + 2 * window_ and start_ % 1 == 0 and
   current_ >= 0 and current_ <= limit_ and current_ % 1 == 0 and
   previous_ >= 0 and previous_ <= limit_ and previous_ % 1 == 0 and
   kept_ >= start_ and kept_ <= exact and kept_ % grid == 0 then
  local at, left = begin_, rest_
  -- A clock behind the state is read as the state's own time.
  if start_ >= at + window_ then at, left = at + window_, window_ end
  if start_ < at then
    previous_ = start_ >= at - window_ and current_ or 0
    current_ = 0
  end
  start_ = at
  local weight = previous_ * left
  if weight <= exact then
    weight = weight / window_
    if weight % 1 > 0 then weight = weight - weight % 1 + 1 end
    room = (limit_ - weight - current_) / cost_
  end
end
@write
current_ = current_ + pass * cost_
local ends, text = start_ + 2 * window_
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
