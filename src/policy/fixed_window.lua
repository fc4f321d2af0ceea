-- The fixed_window kernel (fixed_window.hpp).
--
-- Key       two little-endian doubles, the window's start in microseconds and the count
-- Constants window, limit, offset (-1: the first request opens the window), count refused (0 or 1), cost
-- State     the start and the count

local window, limit, offset = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1]), tonumber(ARGV[first_arg + 2])
local count_refused, cost = ARGV[first_arg + 3] == '1', tonumber(ARGV[first_arg + 4])
local most = 4503599627370495

local function check(key, checks, write, into, at)
  local start, count = 0, 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    start = -1
    if type(stored) == 'string' and #stored == 16 then
      start, count = struct.unpack('<dd', stored)
      if not (whole(start) and whole(count)) then start, count = -1, 0 end
    end
  end
  into[at], into[at + 1] = start, count
  if start < 0 then return 0 end

  -- A clock behind the window's start finds the window open; behind by more than a window, it takes the count along.
  local moved = count > 0 and start - now > window
  local fresh = count == 0 or now >= start + window
  if fresh then count = 0 end
  if fresh or moved then
    start = offset < 0 and now or offset + floor((now - offset) / window) * window
  end

  local admitted = floor((limit - count) / cost)
  if admitted < 0 then admitted = 0 end
  -- 2^53 - 1 stands for no limit, and a count stops at half of that.
  if limit == 9007199254740991 or admitted > checks then admitted = checks end
  if not write then return admitted end

  local counted = count_refused and checks or admitted
  if counted > 0 or moved then
    count = count + counted * cost
    if count > most then count = most end
    if fresh or moved then
      call('SET', key, struct.pack('<dd', start, count), 'PX', format('%d', ceil((start + window - now) / 1000)))
    else
      call('SETRANGE', key, 8, struct.pack('<d', count))
      call('PEXPIRE', key, format('%d', ceil((start + window - now) / 1000)))
    end
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, format('%d', ceil((start + window - now) / 1000)))
  end
  return admitted
end
