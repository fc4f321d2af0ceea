-- The full kernel of sliding_log.lua, which describes the key.

@full
count_refused = count_refused == 1
local modulus = 4503599627370496
local zeros = struct.pack('<dd', 0, 0)

-- True if a foreign entry was read. Each check reads both ends of the log, and of the middle only
-- what it needs.
local strange = false

local function entry(key, i)
  local text = call('LINDEX', key, i)
  if text and #text == 16 then
    local time, total = struct.unpack('<dd', text)
    if whole(time) and whole(total) then return time, total end
  end
  strange = true
  return 0, 0
end

local function not_ours(into, at)
  into[at], into[at + 1], into[at + 2], into[at + 3], into[at + 4], into[at + 5] =
    foreign, 0, 0, 0, 0, 0
  return 0
end

local function read_head(head)
  if #head == 32 then return struct.unpack('<dddd', head) end
  local ignored, base = struct.unpack('<dd', head)
  return 0, base, 0, 0
end

local function write_head(key, written, base, last, pinned)
  if written > 0 then
    call('LSET', key, '0', struct.pack('<dddd', written, base, last, pinned))
  else
    call('LSET', key, '0', struct.pack('<dd', 0, base))
  end
end

-- Replaces the whole log. The key exists all the time: while a slot moves, its node runs no command
-- on a key that it does not have.
local function replace(key, head, newest)
  if call('RPUSH', key, head, newest) > 2 then
    call('LTRIM', key, '-2', '-1')
  end
end

-- A request counts from its step's end.
local function entry_time(time)
  return resolution == 0 and time or (floor(time / resolution) + 1) * resolution
end

-- The last index in [low, high) for which before(time, total) is true. It must be true at low, and
-- stay false once it is false. Gallops first, because the answer is mostly close to low.
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

-- A longer window may share the key: the TTL that it has set stays.
local function longest_ttl(key, ends)
  local ttl, left = ttl_of(ends), call('PTTL', key)
  return left > tonumber(ttl) and format('%d', left) or ttl
end

local function check(key, checks, write, into, at)
  strange = false
  local sum, newest, passes = 0, 0, 0
  local base, total, first = 0, 0, 0
  local latest_known_past, alive, moved = clock, false, false
  local last, written, pinned = 0, 0, 0  -- the last turn that is taken, and when it was reserved
  local head_base = 0
  local ignored, oldest, oldest_total
  local lone = false  -- the log is one entry behind a head of zeros

  local head = pcall('LRANGE', key, '0', '1')
  if refused(head) then return 0 end
  local width = #head > 0 and #head[1] or 0
  local ours = not head.err and (#head == 0 or (#head == 1 or #head[2] == 16) and
               (width == 16 or width == 32 or width == 40))
  if ours and #head > 0 then
    written, base, last, pinned = read_head(head[1])
    head_base = base
    ours = whole(base) and whole(written) and whole(last) and whole(pinned)
  end
  if ours and #head == 2 then
    oldest, oldest_total = struct.unpack('<dd', head[2])
    local tail = call('LINDEX', key, '-1')
    lone = tail == head[2] and head[1] == zeros
    if #tail == 16 then newest, total = struct.unpack('<dd', tail) end
    ours = #tail == 16 and whole(oldest) and whole(oldest_total) and whole(newest) and whole(total)
  end
  if not ours then return not_ours(into, at) end
  local time = now
  if #head > 0 then
    local own = #head == 2 and written == 0 and newest - resolution or written
    moved = own - clock > window
    if moved then
      latest_known_past, last = own, last > own and last or own
      time = last
    else
      -- Reservations come first.
      if written > latest_known_past then latest_known_past = written end
      if latest_known_past > time then time = latest_known_past end
      if last > time then time = last end
    end
    alive = #head == 2 and newest > time - window
    if alive then
      if oldest <= time - window then
        first = last_before(key, 1, call('LLEN', key), function(t) return t <= time - window end)
        ignored, base = entry(key, first)
      end
      if strange then return not_ours(into, at) end
      sum = (total - base) % modulus
    end
    -- The clock is behind by more than a window: the log becomes one entry of now.
    if moved and #head == 1 then
      last, latest_known_past, written, pinned, moved, time = 0, clock, 0, 0, false, now
      if write then
        write_head(key, 0, 0, 0, 0)
        call('PEXPIRE', key, ttl_of(clock))
      end
    elseif moved then
      local own_end = newest + window
      last = clock + last - latest_known_past
      newest, latest_known_past, written = entry_time(last), clock, last > clock and clock or 0
      time = last > now and last or now
      alive = newest > time - window
      if count_refused and sum > limit then sum = limit end
      first, base, total = 0, 0, sum
      head_base, oldest, pinned = 0, newest, last
      if write then
        -- A TTL that a longer window has set stays.
        local ttl = longest_ttl(key, newest + window)
        if tonumber(ttl) <= tonumber(ttl_on_grid(own_end)) then ttl = ttl_of(newest + window) end
        width, lone = 0, false
        local head = zeros
        if written > 0 then head = struct.pack('<dddd', written, 0, last, last) end
        replace(key, head, struct.pack('<dd', newest, total))
        call('PEXPIRE', key, ttl)
      end
      if not alive then sum = 0 end
    end
  end
  into[at], into[at + 1] = sum, newest
  into[at + 4], into[at + 5] = written, written > 0 and last or 0
  local early = now < time and latest_known_past < time

  local room
  @insert rule
  local admitted = floor(room)
  if admitted < 0 then admitted = 0 end
  -- The sum stops at half of no_limit.
  if limit == no_limit or admitted > checks then admitted = checks end
  if early then admitted = 0 end
  local counted = count_refused and checks or admitted
  local stamp = entry_time(time)
  -- Another resolution may have written an entry that is later.
  if newest > stamp then stamp = newest end
  local in_list = sum  -- how much of the sum after the checks the list holds
  if counted > 0 then
    local weight = counted * cost
    if write and count_refused and alive and newest == stamp then
      -- An entry that fills the limit alone need not weigh more.
      local before = head_base
      if oldest ~= newest then ignored, before = entry(key, -2) end
      local most = limit - (total - before) % modulus
      if weight > most then weight = most > 0 and most or 0 end
    end
    if weight > modulus - 1 - sum then weight = modulus - 1 - sum end
    sum = sum + weight
    if write then
      in_list = sum
      local ttl = longest_ttl(key, stamp + window)
      -- Drops what has left the window by now; or, if the rest is too much to be counted, by the
      -- turn.
      local left, kept = first, alive
      if time > latest_known_past and #head == 2 then
        left, kept = 0, newest > latest_known_past - window
        if kept and oldest <= latest_known_past - window then
          left = last_before(key, 1, call('LLEN', key), function(t)
            return t <= latest_known_past - window
          end)
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
          call('LTRIM', key, left, '-1')
          written, width = 0, 0
        end
        if alive then first = first - left else first, base = call('LLEN', key) - 1, total end
        total = (total + weight) % modulus
        if newest == stamp then
          call('LSET', key, '-1', struct.pack('<dd', stamp, total))
        else
          call('RPUSH', key, struct.pack('<dd', stamp, total))
        end
      else
        base, head_base, total, first = 0, 0, weight, 0
        if lone then
          call('LSET', key, '1', struct.pack('<dd', stamp, total))
        else
          replace(key, zeros, struct.pack('<dd', stamp, total))
        end
        written, width = 0, 0
      end
      if count_refused and sum > limit then
        -- Entries do not matter any more if the newer ones alone fill the limit.
        local whole_sum = total
        local keep = 0
        ignored, oldest_total = entry(key, 1)
        local function is_enough_behind(t, reached)
          local is_enough = (whole_sum - reached) % modulus >= limit
          if is_enough then base = reached end
          return is_enough
        end
        if is_enough_behind(0, oldest_total) then
          keep = last_before(key, 1, call('LLEN', key), is_enough_behind)
        end
        if keep > 0 and not strange then
          call('LTRIM', key, keep, '-1')
          head_base, written, width, first = base, 0, 0, 0
        end
        sum = (whole_sum - base) % modulus
        in_list = sum
      end
      if time > latest_known_past then
        write_head(key, latest_known_past, head_base, time, pinned)
      elseif written > 0 or width == 40 then
        write_head(key, 0, head_base, 0, 0)
      end
      call('PEXPIRE', key, ttl)
    end
  elseif write and call('PTTL', key) == -1 then
    -- A head of 40 bytes may promise a longer TTL, and the common path would not renew this one.
    if width == 40 then write_head(key, 0, head_base, 0, 0) end
    call('PEXPIRE', key, ttl_of(#head == 2 and newest + window or last))
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
