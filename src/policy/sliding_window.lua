-- The sliding_window kernel (sliding_window.hpp), for one or more keys at one instant.
--
-- KEYS  one per subject: three little-endian doubles, the window's start, its count and the previous window's count. The
--       start, not the number: read with another window's length, a number could lie years ahead.
-- ARGV  window, limit, digit base, largest count, count refused (0 or 1), cost, then for each key the number of equal
--       checks (1 if left out, 0 to look only)
-- Reply now, then for each key the window's start and the two counts before the checks; the start is -1 if the key holds
--       something else

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local base, most = tonumber(ARGV[3]), tonumber(ARGV[4])
local count_refused, cost = ARGV[5] == '1', tonumber(ARGV[6])
local reply = {now}

-- Whether x may be a time or a count of ours: eight stray bytes are a double too, and must not get into the arithmetic.
local function whole(x)
  return x >= 0 and x <= 9007199254740991 and x % 1 == 0
end

for i = 1, #KEYS do
  local key, checks = KEYS[i], tonumber(ARGV[6 + i] or 1)
  local index, current, previous = 0, 0, 0
  local stored = redis.pcall('GET', key)
  if stored then
    index = -1
    if type(stored) == 'string' and #stored == 24 then
      local start, a, b = struct.unpack('<ddd', stored)
      if whole(start) and whole(a) and whole(b) then
        -- A longer window may bear smaller counts only.
        index, current, previous = math.floor(start / window), math.min(a, most), math.min(b, most)
      end
    elseif type(stored) == 'table' and not string.find(stored.err, 'WRONGTYPE', 1, true) then
      return stored  -- not allowed
    end
  end
  reply[3 * i - 1] = index < 0 and -1 or index * window
  reply[3 * i], reply[3 * i + 1] = current, previous

  if checks > 0 and index >= 0 then
    -- A clock behind the state is read as the state's own time; behind by more than a window, it takes the counts along.
    local at = now
    local moved = index * window - now > window
    if moved then
      -- At full weight: when in its window they came, nobody knows.
      index, current, previous = math.floor(now / window), math.min(current + previous, most, limit), 0
    elseif index * window > at then
      at = index * window
    end
    local number = math.floor(at / window)
    local fresh = number ~= index or not stored
    if number ~= index then
      previous = number == index + 1 and current or 0
      index, current = number, 0
    end

    -- previous * left / window, rounded up, in two digits: the product itself may pass 2^53.
    local left = window - (at - index * window)
    local high = math.floor(previous / base)
    local whole = math.floor(high * left / window)
    local rest = (high * left - whole * window) * base + (previous - high * base) * left
    local weight = whole * base + math.ceil(rest / window)

    local counted = math.floor((limit - weight - current) / cost)
    -- Two saturated counters come to more than 2^53 - 1, which stands for no limit.
    if count_refused or limit == 9007199254740991 or counted > checks then counted = checks end
    if counted > 0 or moved then
      if counted > 0 then current = current + counted * cost end
      if current > most then current = most end
      local ttl = math.ceil(((index + 2) * window - now) / 1000)
      if fresh or moved then
        redis.call('SET', key, struct.pack('<ddd', index * window, current, previous), 'PX', ttl)
      else
        redis.call('SETRANGE', key, 8, struct.pack('<d', current))
        redis.call('PEXPIRE', key, ttl)
      end
    elseif redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, math.ceil(((index + 2) * window - now) / 1000))
    end
  end
end
return reply
