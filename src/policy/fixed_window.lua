-- The fixed_window kernel (fixed_window.hpp), for one or more keys at one instant.
--
-- KEYS  one per subject: two little-endian doubles, the window's start in microseconds and the count
-- ARGV  window, limit, offset (-1: the first request opens the window), count refused (0 or 1), cost, then for each key
--       the number of equal checks (1 if left out, 0 to look only)
-- Reply now, then for each key its start and count before the checks; start is -1 if the key holds something else

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, limit, offset = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count_refused, cost = ARGV[4] == '1', tonumber(ARGV[5])
local most = 4503599627370495
local reply = {now}

-- Whether x may be a time or a count of ours: eight stray bytes are a double too, and must not get into the arithmetic.
local function whole(x)
  return x >= 0 and x <= 9007199254740991 and x % 1 == 0
end

for i = 1, #KEYS do
  local key, checks = KEYS[i], tonumber(ARGV[5 + i] or 1)
  local start, count = 0, 0
  local stored = redis.pcall('GET', key)
  if stored then
    start = -1
    if type(stored) == 'string' and #stored == 16 then
      start, count = struct.unpack('<dd', stored)
      if not (whole(start) and whole(count)) then start, count = -1, 0 end
    elseif type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then
      return stored  -- not allowed
    end
  end
  reply[2 * i], reply[2 * i + 1] = start, count

  if checks > 0 and start >= 0 then
    -- A clock behind the window's start finds the window open; behind by more than a window, it takes the count along.
    local moved = count > 0 and start - now > window
    local fresh = count == 0 or now >= start + window
    if fresh then count = 0 end
    if fresh or moved then
      start = offset < 0 and now or offset + math.floor((now - offset) / window) * window
    end

    local counted = math.floor((limit - count) / cost)
    if count_refused or counted > checks then counted = checks end
    if counted > 0 or moved then
      if counted > 0 then count = count + counted * cost end
      if count > most then count = most end
      local ttl = math.ceil((start + window - now) / 1000)
      if fresh or moved then
        redis.call('SET', key, struct.pack('<dd', start, count), 'PX', ttl)
      else
        redis.call('SETRANGE', key, 8, struct.pack('<d', count))
        redis.call('PEXPIRE', key, ttl)
      end
    elseif redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, math.ceil((start + window - now) / 1000))
    end
  end
end
return reply
