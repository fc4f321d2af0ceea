-- The sliding_window kernel (sliding_window.hpp).
--
-- Key       little-endian doubles: the window's start, its count, the previous window's count, and
--           the line of the grid until which the key stays at least. The start, not the number:
--           read with another window's length, a number could lie years ahead. With reservations
--           ahead, the last turn instead of the start, and in place of that line when it was
--           written, and how much is reserved for the last turn.
-- Constants window, limit, digit base, largest count, count refused (0 or 1), cost
-- State     the window's start and the two counts, 0 and 0; with reservations ahead, the last turn,
--           the counts in its window and before, when it was written, and how much is reserved for
--           the last turn
--
-- A plain state is two counts without reservations ahead, under a policy that has a limit and does
-- not count what it refuses. The 32 bytes that the key holds, or zeros, are the answer.

@constants
window_, limit_, base_, most_, count_refused_, cost_,
@common_constants
window_, limit_, cost_,
@others
-- The digit base and the largest count are what sliding_window::most() says.
local mantissa, exponent = math.frexp(4503599627370496 / window)
local base = 2 ^ (exponent - 1)
local most = math.min(math.floor(9007199254740991 / window) * base, 4503599627370495)
local count_refused = 0
@rule
-- The previous count's weight is rounded up. If the product passes 2^53, `room` stays nil.
local weight_ = previous_ * left_
if weight_ <= 9007199254740991 then
  weight_ = weight_ / window_
  if weight_ % 1 > 0 then weight_ = weight_ - weight_ % 1 + 1 end
  room = (limit_ - weight_ - current_) / cost_
end
@start
-- `rest_` is how long the previous window still weighs, and `heaviest_` the largest count that can
-- be weighed then: no product passes 2^53, so a quotient that is not whole is not rounded to a
-- whole one.
local begin_ = clock - clock % window_
local rest_ = begin_ + window_ - clock
local heaviest_ = exact / rest_
if heaviest_ > limit_ then heaviest_ = limit_ end
@state
local text_ = stored
if not stored then
  text_ = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  found[@key] = text_
elseif #stored ~= 32 then
  text_ = '--------------------------------'  -- no whole numbers
end
local start_, current_, previous_, kept_ = read('<dddd', text_)
@quick
-- The window is open, and its TTL lasts.
if not counted and start_ == begin_ and kept_ >= begin_ + 2 * window_ and kept_ <= exact and
   kept_ % grid == 0 and current_ >= 0 and current_ <= limit_ and current_ % 1 == 0 and
   previous_ >= 0 and previous_ <= heaviest_ and previous_ % 1 == 0 then
  if previous_ * rest_ / window_ <= limit_ - current_ - cost_ then
    failed = pcall('SETRANGE', keys[@key], '8', pack('<d', current_ + cost_))
    if failed ~= 32 then return failed end
    done = true
  elseif max_wait < 0 then
    done = true
  end
end
@look
if start_ >= 0 and start_ < begin_ + 2 * window_ and start_ % 1 == 0 and
   current_ >= 0 and current_ <= limit_ and current_ % 1 == 0 and
   previous_ >= 0 and previous_ <= limit_ and previous_ % 1 == 0 and
   kept_ >= start_ and kept_ <= exact and kept_ % grid == 0 then
  local at, left_ = begin_, rest_
  -- A clock behind the state is read as the state's own time.
  if start_ >= at + window_ then at, left_ = at + window_, window_ end
  if start_ < at then
    previous_ = start_ >= at - window_ and current_ or 0
    current_ = 0
  end
  start_ = at
  @insert rule
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
count_refused = count_refused == 1

-- previous * left / window, rounded up, in two digits: the product itself may pass 2^53.
local function weigh(previous, left)
  local high = floor(previous / base)
  local full = floor(high * left / window)
  local rest = (high * left - full * window) * base + (previous - high * base) * left
  return full * base + ceil(rest / window)
end

-- When a refused check will pass, if nothing else comes (sliding_window::passes_at).
local function passes_at(start, current, previous)
  local room = limit - current - cost
  if room < 0 then
    -- In the next window, where the current counter weighs as the previous.
    start, previous, room = start + window, current, limit - cost
    if previous <= room then return start end
  end
  -- The longest rest of the window for which the previous one weighs no more than the room. The
  -- quotient may be off by one.
  local left = floor(room * window / previous)
  while left > 0 and weigh(previous, left) > room do left = left - 1 end
  while left < window and weigh(previous, left + 1) <= room do left = left + 1 end
  return start + window - left
end

local kept  -- of the key that check() saw last: the line of the grid until which it stays

local function check(key, checks, write, into, at)
  local index, current, previous, written, at_last, last = 0, 0, 0, 0, 0, 0
  local is_aligned = false  -- not if another window's length has written the start
  kept = 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    index = foreign
    if type(stored) == 'string' and (#stored == 32 or #stored == 40) then
      local start, a, b, line = struct.unpack('<dddd', stored)
      kept = line
      if #stored == 40 then
        written, at_last = struct.unpack('<dd', stored, 25)
        kept = line_of_ttl(key)
      end
      if whole(start) and whole(a) and whole(b) and whole(written) and whole(at_last) and
         whole(kept) and kept % grid == 0 then
        -- A longer window may bear smaller counts only.
        index, current, previous = floor(start / window), math.min(a, most), math.min(b, most)
        is_aligned = start == index * window
        if written > 0 then last = start end
      else
        written, at_last, kept = 0, 0, 0
      end
    end
  end
  into[at] = index == foreign and foreign or last > 0 and last or index * window
  into[at + 1], into[at + 2], into[at + 3], into[at + 4] = current, previous, written, at_last
  if index == foreign then return 0 end

  -- A clock behind the state is read as the state's own time; if it is behind by more than a
  -- window, the counts move to the present window.
  local latest_known_past = written > 0 and written or index * window
  local moved = latest_known_past - clock > window
  if moved then
    -- An expiry that a longer window has set stays.
    if kept <= line_after((index + 2) * window) then kept = 0 end
    last = math.max(last - (latest_known_past - clock), clock)
    -- At full weight: it is unknown when in their window they came.
    index, current, previous = floor(last / window), math.min(current + previous, most, limit), 0
    at_last = current
  end
  if moved or latest_known_past < clock then latest_known_past = clock end
  local time = now > latest_known_past and now or latest_known_past
  -- Nothing passes before the last turn.
  local early = last > time
  if early then time = last end
  if last < time then at_last = 0 end
  local number = floor(time / window)
  local fresh = number ~= index or not is_aligned
  if number ~= index then
    previous = number == index + 1 and current or 0
    index, current = number, 0
  end

  local left, room = window - (time - index * window)
  @insert rule
  local admitted = floor(room or (limit - weigh(previous, left) - current) / cost)
  if admitted < 0 then admitted = 0 end
  -- Two saturated counters and a cost exceed no_limit.
  if limit == no_limit or admitted > checks then admitted = checks end
  local fits = admitted > 0
  if early then admitted = 0 end
  if not write then
    if admitted > 0 or checks == 0 then return admitted end
    return 0, fits and time or passes_at(index * window, current, previous)
  end

  local counted = count_refused and checks or admitted
  if counted > 0 or moved then
    at_last = math.min(at_last, current) + counted * cost
    if at_last > most then at_last = most end
    current = current + counted * cost
    if current > most then current = most end
    local ends = (index + 2) * window
    -- A longer window may share the key: the expiry that it has set stays.
    local line = line_after(ends)
    if kept > line then line = kept end
    local ttl = ttl_of(line)
    if time > latest_known_past then
      call('SET', key,
        struct.pack('<ddddd', time, current, previous, latest_known_past, at_last), 'PX', ttl)
    elseif fresh or moved or written > 0 or kept < ends then
      call('SET', key, struct.pack('<dddd', index * window, current, previous, line), 'PX', ttl)
    else
      call('SETRANGE', key, '8', struct.pack('<d', current))
    end
  elseif call('PTTL', key) == -1 then
    local ends = (index + 2) * window
    call('PEXPIRE', key, ttl_of(kept > ends and kept or line_after(ends)))
  end
  return admitted
end
