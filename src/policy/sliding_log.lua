-- The sliding_log kernel (sliding_log.hpp).
--
-- Key       a list of entries, each two little-endian doubles: a time and the running total up to it, modulo 2^52. Element
--           0 is the newest entry that has left the window: its total is the base of all sums.
-- Constants window, limit, resolution, count refused (0 or 1), cost. With count refused, at most one check at a time
-- State     the sum before the checks, the newest entry's time, the sum after them, and the time at which the first refused
--           one would pass (0 if none)

local window, limit = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])
local resolution, count_refused = tonumber(ARGV[first_arg + 2]), ARGV[first_arg + 3] == '1'
local cost = tonumber(ARGV[first_arg + 4])
local modulus = 4503599627370496

local function entry(key, i)
  return struct.unpack('<dd', call('LINDEX', key, i))
end

-- A request counts from its bucket's end.
local function entry_time(time)
  return resolution == 0 and time or (floor(time / resolution) + 1) * resolution
end

-- The last index in [low, high) for which before(time, total) holds; it holds at low (by assumption) and, once false,
-- stays false. Gallops first: nearly always the answer is close to low.
local function last_before(key, low, high, before)
  local step = 1
  while low + step < high and before(entry(key, low + step)) do
    low = low + step
    step = step * 2
  end
  if low + step < high then high = low + step end
  while high - low > 1 do
    local middle = floor((low + high) / 2)
    if before(entry(key, middle)) then low = middle else high = middle end
  end
  return low
end

local function check(key, checks, write, into, at)
  local sum, newest, passes = 0, 0, 0
  local base, total, first = 0, 0, 0
  local time, alive, moved = now, false, false
  local ignored, oldest, oldest_total

  local head = pcall('LRANGE', key, 0, 1)
  if refused(head) then return 0 end
  local ours = not head.err and (#head == 0 or #head == 2 and #head[1] == 16 and #head[2] == 16)
  if ours and #head == 2 then
    ignored, base = struct.unpack('<dd', head[1])
    oldest, oldest_total = struct.unpack('<dd', head[2])
    local tail = call('LINDEX', key, -1)
    if #tail == 16 then newest, total = struct.unpack('<dd', tail) end
    ours = #tail == 16 and whole(base) and whole(oldest) and whole(oldest_total) and whole(newest) and whole(total)
  end
  if not ours then
    into[at], into[at + 1], into[at + 2], into[at + 3] = -1, 0, 0, 0
    return 0
  end
  if #head == 2 then
    -- A clock behind the state is read as the state's own time.
    if newest - resolution > time then time = newest - resolution end
    alive = newest > time - window
    if alive then
      if oldest <= time - window then
        first = last_before(key, 1, call('LLEN', key), function(t) return t <= time - window end)
        ignored, base = entry(key, first)
      end
      sum = (total - base) % modulus
    end
    -- Behind by more than a window: all of the log becomes one entry of now.
    moved = time - now > window
    if moved then
      time, newest = now, entry_time(now)
      if count_refused and sum > limit then sum = limit end
      first, base, total = 0, 0, sum
      if write then
        call('DEL', key)
        call('RPUSH', key, struct.pack('<dd', 0, 0), struct.pack('<dd', newest, total))
        call('PEXPIRE', key, format('%d', ceil((newest + window - now) / 1000)))
      end
    end
  end
  into[at], into[at + 1] = sum, newest

  local admitted = floor((limit - sum) / cost)
  if admitted < 0 then admitted = 0 end
  -- 2^53 - 1 stands for no limit, and the sum stops at half of that.
  if limit == 9007199254740991 or admitted > checks then admitted = checks end
  local counted = count_refused and checks or admitted
  local stamp = entry_time(time)
  local in_list = sum  -- how much of the sum after the checks the list holds
  if counted > 0 then
    local weight = counted * cost
    if write and count_refused and alive and newest == stamp then
      -- An entry that fills the limit alone need not weigh more.
      local ignored_time, before = entry(key, -2)
      local room = limit - (total - before) % modulus
      if weight > room then weight = room > 0 and room or 0 end
    end
    if weight > modulus - 1 - sum then weight = modulus - 1 - sum end
    sum = sum + weight
    if write then
      in_list = sum
      if alive then
        if first > 0 then call('LTRIM', key, first, -1) end
        total = (total + weight) % modulus
        if newest == stamp then
          call('LSET', key, -1, struct.pack('<dd', stamp, total))
        else
          call('RPUSH', key, struct.pack('<dd', stamp, total))
        end
      else
        if #head > 0 then call('DEL', key) end
        base, total = 0, weight
        call('RPUSH', key, struct.pack('<dd', 0, 0), struct.pack('<dd', stamp, total))
      end
      first = 0
      if count_refused and sum > limit then
        -- What the newer entries alone fill can no longer matter.
        local last = total
        local keep = 0
        ignored, oldest_total = entry(key, 1)
        while (last - oldest_total) % modulus >= limit do
          keep, base = keep + 1, oldest_total
          ignored, oldest_total = entry(key, keep + 1)
        end
        if keep > 0 then call('LTRIM', key, keep, -1) end
        sum = (last - base) % modulus
        in_list = sum
      end
      call('PEXPIRE', key, format('%d', ceil((stamp + window - now) / 1000)))
    end
  elseif write and call('PTTL', key) == -1 then
    call('PEXPIRE', key, format('%d', ceil((newest + window - now) / 1000)))
  end

  if admitted < checks or checks == 0 and sum + cost > limit then
    local need = sum + cost - limit
    if need > in_list then
      passes = stamp + window
    elseif moved and not write then
      passes = newest + window
    else
      local low = last_before(key, first, call('LLEN', key),
                              function(t, reached) return (reached - base) % modulus < need end)
      passes = entry(key, low + 1) + window
    end
  end
  into[at + 2], into[at + 3] = sum, passes
  return admitted
end
