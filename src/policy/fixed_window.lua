-- The fixed_window kernel (fixed_window.hpp).
--
-- Key       little-endian doubles: the window's start in microseconds, the count, and the line of
--           the grid until which the key stays at least; of a window opened ahead, in place of that
--           line, when it was written, and start and count of the window before (0 if not known)
-- Constants window, limit, offset (or first_request: the first request opens the window), count
--           refused (0 or 1), cost
-- State     the start, the count, and when it was written (0 if the window was not opened ahead)
--
-- A plain state is a window that was not opened ahead, under a policy that has a limit and does not
-- count what it refuses. The 24 bytes that the key holds, or zeros, are the answer.

@constants
window_, limit_, offset_, count_refused_, cost_,
@common_constants
window_, limit_, offset_, cost_,
@others
local count_refused = 0
@rule
room = (limit_ - count_) / cost_
@start
@one local earliest_ = clock < window_ and -1 or clock - window_
@state
local text_ = stored
if not stored then
  text_ = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  found[@key] = text_
elseif #stored ~= 24 then
  text_ = '------------------------'  -- no whole numbers
end
local start_, count_, kept_ = read('<ddd', text_)
@quick
-- The window is open, and its TTL lasts. Beyond 2^53, all numbers are whole.
if not counted and start_ > earliest_ and start_ <= clock and
  kept_ >= start_ + window_ and count_ >= 1 and count_ <= limit_ and start_ % 1 == 0 and
  count_ % 1 == 0 and kept_ % grid == 0 and kept_ <= exact then
  if count_ + cost_ <= limit_ then
    failed = pcall('SETRANGE', keys[@key], '8', pack('<d', count_ + cost_))
    if failed ~= 24 then return failed end
    done = true
  elseif max_wait < 0 then
    done = true
  end
end
@look
if start_ >= 0 and start_ <= clock + window_ and start_ % 1 == 0 and
   count_ >= 0 and count_ <= exact and count_ % 1 == 0 and
   kept_ >= start_ and kept_ <= exact and kept_ % grid == 0 then
  if start_ <= clock - window_ or count_ == 0 then
    count_ = 0
    if clock > start_ then start_ = clock end
    if offset_ >= 0 then start_ = start_ - (start_ - offset_) % window_ end
  end
  @insert rule
end
@write
count_ = count_ + pass * cost_
local ends, text = start_ + window_
if kept_ < ends then
  line = ends - ends % grid + grid
  text = pack('<ddd', start_, count_, line)
else
  text = pack('<dd', start_, count_)
end
local length = pcall('SETRANGE', key, '0', text)
if length ~= 24 then failed = length end
@full
count_refused = count_refused == 1
local most = 4503599627370495
local first_request = -1  -- as fixed_window::first_request
local kept  -- of the key that check() saw last: the line of the grid until which it stays

local function begin_of_window(time)
  return offset == first_request and time or offset + floor((time - offset) / window) * window
end

local function check(key, checks, write, into, at)
  local start, count, written = 0, 0, 0
  local before, count_before = 0, 0
  kept = 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    start = foreign
    if type(stored) == 'string' and (#stored == 24 or #stored == 40) then
      start, count, kept = struct.unpack('<ddd', stored)
      if #stored == 40 then
        written, before, count_before = struct.unpack('<ddd', stored, 17)
        kept = line_of_ttl(key)
      end
      if not (whole(start) and whole(count) and whole(written) and whole(before) and
              whole(count_before) and whole(kept) and kept % grid == 0) then
        start, count, written, kept = foreign, 0, 0, 0
      end
    end
  end
  into[at], into[at + 1], into[at + 2] = start, count, written
  if start == foreign then return 0 end

  -- A clock behind the window's start finds the window open; if it is behind by more than a window,
  -- the count moves to the present window.
  local latest_known_past = written > 0 and written or start
  if latest_known_past < clock then latest_known_past = clock end
  local open = count > 0 or written > 0
  local moved = latest_known_past - clock > window
  if moved then
    -- An expiry that a longer window has set stays.
    if kept <= line_after(start + window) then kept = 0 end
    start, latest_known_past = begin_of_window(start - (latest_known_past - clock)), clock
    before, count_before = 0, 0
  end
  local time = now > latest_known_past and now or latest_known_past
  local fresh = not open or time >= start + window
  if fresh then
    before, count_before = latest_known_past, 0
    if open and latest_known_past < start + window then before, count_before = start, count end
    start, count = begin_of_window(time), 0
  end

  local room
  @insert rule
  local admitted = floor(room)
  if admitted < 0 then admitted = 0 end
  -- A count stops at half of no_limit.
  if limit == no_limit or admitted > checks then admitted = checks end
  -- Before a window that was opened ahead, the present one is full.
  local turn = start
  if admitted == 0 then turn = start + window end
  if time < start then admitted = 0 end
  if not write then return admitted, turn end

  local counted = count_refused and checks or admitted
  if counted > 0 or moved then
    -- A longer window may share the key: the expiry that it has set stays.
    local line = line_after(start + window)
    if kept > line then line = kept end
    local ttl = ttl_of(line)
    count = count + counted * cost
    if count > most then count = most end
    if start > latest_known_past then
      call('SET', key,
        struct.pack('<ddddd', start, count, latest_known_past, before, count_before), 'PX', ttl)
    elseif fresh or moved or written > 0 or kept < start + window then
      call('SET', key, struct.pack('<ddd', start, count, line), 'PX', ttl)
    else
      call('SETRANGE', key, '8', struct.pack('<d', count))
    end
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, ttl_of(kept > start + window and kept or line_after(start + window)))
  end
  return admitted
end
