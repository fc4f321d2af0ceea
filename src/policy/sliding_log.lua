-- The sliding_log kernel (sliding_log.hpp), for one or more keys at one instant.
--
-- KEYS  one per subject: a list of entries, each two little-endian doubles: a time and the running total up to it, modulo
--       2^52. Element 0 is the newest entry that has left the window: its total is the base of all sums.
-- ARGV  window, limit, resolution, count refused (0 or 1), cost, then for each key the number of equal checks
--       (1 if left out, 0 to look only; at most 1 with count refused)
-- Reply now, then for each key: the sum before the checks, the newest entry's time, the sum after them, and the time at
--       which the first refused one would pass (0 if none); the sum is -1 if the key holds something else

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local window, limit, resolution = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local count_refused, cost = ARGV[4] == '1', tonumber(ARGV[5])
local modulus = 4503599627370496
local reply = {now}

-- Whether x may be a time or a count of ours: eight stray bytes are a double too, and must not get into the arithmetic.
local function whole(x)
  return x >= 0 and x <= 9007199254740991 and x % 1 == 0
end

local function entry(key, i)
  return struct.unpack('<dd', redis.call('LINDEX', key, i))
end

-- The last index in [low, high) for which before(time, total) holds; it holds at low (by assumption) and, once false, stays
-- false. Gallops first: nearly always the answer is close to low.
local function last_before(key, low, high, before)
  local step = 1
  while low + step < high and before(entry(key, low + step)) do
    low = low + step
    step = step * 2
  end
  if low + step < high then high = low + step end
  while high - low > 1 do
    local middle = math.floor((low + high) / 2)
    if before(entry(key, middle)) then low = middle else high = middle end
  end
  return low
end

-- A request counts from its bucket's end.
local function entry_time(at)
  return resolution == 0 and at or (math.floor(at / resolution) + 1) * resolution
end

for i = 1, #KEYS do
  local key, checks = KEYS[i], tonumber(ARGV[5 + i] or 1)
  local sum, newest, passes = 0, 0, 0
  local base, total, first = 0, 0, 0
  local at, alive, moved = now, false, false
  local ignored, oldest, oldest_total

  local head = redis.pcall('LRANGE', key, 0, 1)
  if head.err and not string.find(head.err, 'WRONGTYPE', 1, true) then return head end  -- not allowed
  local ours = not head.err and (#head == 0 or #head == 2 and #head[1] == 16 and #head[2] == 16)
  if ours and #head == 2 then
    ignored, base = struct.unpack('<dd', head[1])
    oldest, oldest_total = struct.unpack('<dd', head[2])
    local tail = redis.call('LINDEX', key, -1)
    if #tail == 16 then newest, total = struct.unpack('<dd', tail) end
    ours = #tail == 16 and whole(base) and whole(oldest) and whole(oldest_total) and whole(newest) and whole(total)
    if not ours then newest = 0 end
  end
  if ours and #head == 2 then
    -- A clock behind the state is read as the state's own time.
    if newest - resolution > at then at = newest - resolution end
    alive = newest > at - window
    if alive then
      if oldest <= at - window then
        first = last_before(key, 1, redis.call('LLEN', key), function(t) return t <= at - window end)
        ignored, base = entry(key, first)
      end
      sum = (total - base) % modulus
    end
    -- Behind by more than a window: all of the log becomes one entry of now.
    moved = at - now > window
    if moved then
      at, newest = now, entry_time(now)
      if count_refused and sum > limit then sum = limit end
      first, base, total = 0, 0, sum
      if checks > 0 then
        redis.call('DEL', key)
        redis.call('RPUSH', key, struct.pack('<dd', 0, 0), struct.pack('<dd', newest, total))
        redis.call('PEXPIRE', key, math.ceil((newest + window - now) / 1000))
      end
    end
  end

  local at_index = 4 * i - 2
  reply[at_index], reply[at_index + 1] = ours and sum or -1, newest

  if ours then
    local admitted = math.floor((limit - sum) / cost)
    if admitted > checks then admitted = checks end
    local counted = count_refused and checks or admitted
    if counted > 0 then
      local weight = counted * cost
      if weight > modulus - 1 - sum then weight = modulus - 1 - sum end
      local stamp = entry_time(at)
      if count_refused and alive and newest == stamp then
        -- An entry that fills the limit alone need not weigh more.
        local ignored_time, before = entry(key, -2)
        local room = limit - (total - before) % modulus
        if weight > room then weight = room > 0 and room or 0 end
      end
      if alive then
        if first > 0 then redis.call('LTRIM', key, first, -1) end
        total = (total + weight) % modulus
        if newest == stamp then
          redis.call('LSET', key, -1, struct.pack('<dd', stamp, total))
        else
          redis.call('RPUSH', key, struct.pack('<dd', stamp, total))
        end
      else
        if #head > 0 then redis.call('DEL', key) end
        base, total = 0, weight
        redis.call('RPUSH', key, struct.pack('<dd', 0, 0), struct.pack('<dd', stamp, total))
      end
      first, sum = 0, sum + weight
      if count_refused and sum > limit then
        -- What the newer entries alone fill can no longer matter.
        local last = total
        local keep = 0
        ignored, oldest_total = entry(key, 1)
        while (last - oldest_total) % modulus >= limit do
          keep, base = keep + 1, oldest_total
          ignored, oldest_total = entry(key, keep + 1)
        end
        if keep > 0 then redis.call('LTRIM', key, keep, -1) end
        sum = (last - base) % modulus
      end
      redis.call('PEXPIRE', key, math.ceil((stamp + window - now) / 1000))
    elseif checks > 0 and redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, math.ceil((newest + window - now) / 1000))
    end

    if moved and checks == 0 then
      if sum + cost > limit then passes = newest + window end
    elseif admitted < checks or checks == 0 and sum + cost > limit then
      local need = sum + cost - limit
      local low = last_before(key, first, redis.call('LLEN', key),
                              function(t, reached) return (reached - base) % modulus < need end)
      passes = entry(key, low + 1) + window
    end
  end
  reply[at_index + 2], reply[at_index + 3] = sum, passes
end
return reply
