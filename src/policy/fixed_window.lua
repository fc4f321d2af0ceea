-- The fixed_window kernel (fixed_window.hpp).
--
-- Key       little-endian doubles: the window's start in microseconds, the count, and the line of
--           the grid until which the key stays at least; of a window opened ahead, in place of that
--           line, when it was written, and start and count of the window before (0 if not known)
-- Constants window, limit, offset (or first_request: the first request opens the window), count
--           refused (0 or 1), cost
-- State     the start, the count, and when it was written (0 if the window was not opened ahead)

local window, limit = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])
local offset = tonumber(ARGV[first_arg + 2])
local count_refused, cost = ARGV[first_arg + 3] == '1', tonumber(ARGV[first_arg + 4])
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
  local passed = written > 0 and written or start
  if passed < clock then passed = clock end
  local open = count > 0 or written > 0
  local moved = passed - clock > window
  if moved then
    -- An expiry that a longer window has set stays.
    if kept <= line_after(start + window) then kept = 0 end
    start, passed = begin_of_window(start - (passed - clock)), clock
    before, count_before = 0, 0
  end
  local time = now > passed and now or passed
  local fresh = not open or time >= start + window
  if fresh then
    before, count_before = passed, 0
    if open and passed < start + window then before, count_before = start, count end
    start, count = begin_of_window(time), 0
  end

  local admitted = floor((limit - count) / cost)
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
    if start > passed then
      call('SET', key, struct.pack('<ddddd', start, count, passed, before, count_before), 'PX', ttl)
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
