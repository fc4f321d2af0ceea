-- The fixed_window kernel (fixed_window.hpp).
--
-- Key       two little-endian doubles, the window's start in microseconds and the count
-- Constants window, limit, offset (-1: the first request opens the window), count refused (0 or 1), cost
-- State     the start and the count

local function fixed_window(first)
  local window, limit, offset = tonumber(ARGV[first]), tonumber(ARGV[first + 1]), tonumber(ARGV[first + 2])
  local count_refused, cost = ARGV[first + 3] == '1', tonumber(ARGV[first + 4])
  local most = 4503599627370495

  return function(key, checks, write, into, at)
    local start, count = 0, 0
    local stored = pcall('GET', key)
    if stored then
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
      start = offset < 0 and now or offset + math.floor((now - offset) / window) * window
    end

    local admitted = math.floor((limit - count) / cost)
    if admitted < 0 then admitted = 0 end
    if admitted > checks then admitted = checks end
    if not write then return admitted end

    local counted = count_refused and checks or admitted
    if counted > 0 or moved then
      count = count + counted * cost
      if count > most then count = most end
      if fresh or moved then
        set(key, struct.pack('<dd', start, count), start + window)
      else
        call('SETRANGE', key, 8, struct.pack('<d', count))
        expire(key, start + window)
      end
    elseif call('PTTL', key) == -1 then
      expire(key, start + window)
    end
    return admitted
  end
end
