-- The sliding_log kernel (sliding_log.hpp).
--
-- Key       a list of entries, each two little-endian doubles: a time and the running total up to it, modulo 2^52. Element
--           0 is the newest entry that has left the window: its total is the base of all sums. With turns booked ahead
--           it is four: when the log was written, the base, the last turn, and a time before which that never goes back.
-- Constants window, limit, resolution, count refused (0 or 1), cost. With count refused, at most one check at a time
-- State     the sum before the checks, the newest entry's time, the sum after them, the time at which there is room for the
--           first refused one (0 if none was, or there is), and, with turns booked ahead, when the log was written
--           and the last turn (0 if not)

local window, limit = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])
local resolution, count_refused = tonumber(ARGV[first_arg + 2]), ARGV[first_arg + 3] == '1'
local cost = tonumber(ARGV[first_arg + 4])
local modulus = 4503599627370496

-- Whether an entry was met that is none of ours: the ends are looked at by each check, the middle only as it is read.
local strange = false

local function entry(key, i)
  local text = call('LINDEX', key, i)
  if text and (#text == 16 or #text == 32) then
    local time, total = struct.unpack('<dd', text)
    if whole(time) and whole(total) then return time, total end
  end
  strange = true
  return 0, 0
end

local function not_ours(into, at)
  into[at], into[at + 1], into[at + 2], into[at + 3], into[at + 4], into[at + 5] = -1, 0, 0, 0, 0, 0
  return 0
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
  strange = false
  local sum, newest, passes = 0, 0, 0
  local base, total, first = 0, 0, 0
  local passed, alive, moved = clock, false, false
  local last, written, pinned = 0, 0, 0  -- the last turn that is taken, and when it was booked
  local head_base = 0
  local ignored, oldest, oldest_total

  local head = pcall('LRANGE', key, 0, 1)
  if refused(head) then return 0 end
  local ours = not head.err and (#head == 0 or #head == 2 and (#head[1] == 16 or #head[1] == 32) and #head[2] == 16)
  if ours and #head == 2 then
    ignored, base = struct.unpack('<dd', head[1])
    if #head[1] == 32 then written, base, last, pinned = struct.unpack('<dddd', head[1]) end
    head_base = base
    oldest, oldest_total = struct.unpack('<dd', head[2])
    local tail = call('LINDEX', key, -1)
    if #tail == 16 then newest, total = struct.unpack('<dd', tail) end
    ours = #tail == 16 and whole(base) and whole(oldest) and whole(oldest_total) and whole(newest) and whole(total) and
           whole(written) and whole(last) and whole(pinned)
  end
  if not ours then return not_ours(into, at) end
  local time = now
  if #head == 2 then
    -- A clock behind the state is read as the state's own time. What is booked ahead comes first.
    if written == 0 then last = newest - resolution end
    if (written > 0 and written or last) > passed then passed = written > 0 and written or last end
    moved = passed - clock > window
    if moved or last > time then time = last end
    if not moved and passed > time then time = passed end
    alive = newest > time - window
    if alive then
      if oldest <= time - window then
        first = last_before(key, 1, call('LLEN', key), function(t) return t <= time - window end)
        ignored, base = entry(key, first)
      end
      if strange then return not_ours(into, at) end
      sum = (total - base) % modulus
    end
    -- Behind by more than a window: all of the log becomes one entry of now.
    if moved then
      last = clock + last - passed
      newest, passed, written = entry_time(last), clock, last > clock and clock or 0
      time = last > now and last or now
      alive = newest > time - window
      if count_refused and sum > limit then sum = limit end
      first, base, total = 0, 0, sum
      head_base, oldest, pinned = 0, newest, last
      if write then
        call('DEL', key)
        call('RPUSH', key, written > 0 and struct.pack('<dddd', written, 0, last, last) or struct.pack('<dd', 0, 0),
             struct.pack('<dd', newest, total))
        call('PEXPIRE', key, format('%d', ceil((newest + window - clock) / 1000)))
      end
      if not alive then sum = 0 end
    end
  end
  into[at], into[at + 1], into[at + 4], into[at + 5] = sum, newest, written, written > 0 and last or 0
  local early = now < time and passed < time

  local admitted = floor((limit - sum) / cost)
  if admitted < 0 then admitted = 0 end
  -- 2^53 - 1 stands for no limit, and the sum stops at half of that.
  if limit == 9007199254740991 or admitted > checks then admitted = checks end
  if early then admitted = 0 end
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
      -- What has left by now goes, and if the rest is too much to be counted, what has left by the turn.
      local left, kept = first, alive
      if time > passed and #head == 2 then
        left, kept = 0, newest > passed - window
        if kept and oldest <= passed - window then
          left = last_before(key, 1, call('LLEN', key), function(t) return t <= passed - window end)
          ignored, head_base = entry(key, left)
        end
        if kept and (total - head_base) % modulus > modulus - 1 - counted * cost then
          left, kept, pinned, head_base = first, alive, time, base
        end
      else
        head_base = base
      end
      if strange then return not_ours(into, at) end
      if kept then
        if left > 0 then
          call('LTRIM', key, left, -1)
          written = 0
        end
        if alive then first = first - left else first, base = call('LLEN', key) - 1, total end
        total = (total + weight) % modulus
        if newest == stamp then
          call('LSET', key, -1, struct.pack('<dd', stamp, total))
        else
          call('RPUSH', key, struct.pack('<dd', stamp, total))
        end
      else
        if #head > 0 then call('DEL', key) end
        base, head_base, total, first = 0, 0, weight, 0
        call('RPUSH', key, struct.pack('<dd', 0, 0), struct.pack('<dd', stamp, total))
        written = 0
      end
      if count_refused and sum > limit then
        -- What the newer entries alone fill can no longer matter.
        local whole_sum = total
        local keep = 0
        ignored, oldest_total = entry(key, 1)
        while not strange and (whole_sum - oldest_total) % modulus >= limit do
          keep, base = keep + 1, oldest_total
          ignored, oldest_total = entry(key, keep + 1)
        end
        if keep > 0 then
          call('LTRIM', key, keep, -1)
          head_base, written = base, 0
        end
        sum = (whole_sum - base) % modulus
        in_list = sum
      end
      if time > passed then
        call('LSET', key, 0, struct.pack('<dddd', passed, head_base, time, pinned))
      elseif written > 0 then
        call('LSET', key, 0, struct.pack('<dd', 0, head_base))
      end
      call('PEXPIRE', key, format('%d', ceil((stamp + window - clock) / 1000)))
    end
  elseif write and call('PTTL', key) == -1 then
    call('PEXPIRE', key, format('%d', ceil((newest + window - clock) / 1000)))
  end

  if (admitted < checks or checks == 0) and sum + cost > limit then
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
  if strange then return not_ours(into, at) end
  into[at + 2], into[at + 3] = sum, passes
  return admitted, passes > time and passes or time
end
