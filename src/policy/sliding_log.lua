-- The sliding_log kernel (sliding_log.hpp).
--
-- Key       a list of entries, each two little-endian doubles: a time and the running total up to
--           it, modulo 2^52. Element 0 is the newest entry that has left the window: its total is
--           the base of all sums. The common path makes five of it: 0, the base, the two of element
--           1 (but if there is no other, the total may be outdated), and until when the key stays
--           at least. This kernel writes none of these, and undoes them when it changes the log.
--           With reservations ahead it is four: when the log was written, the base, the last turn,
--           and a time before which that never goes back.
-- Constants window, limit, resolution, count refused (0 or 1), cost. With count refused, at most
--           one check at a time
-- State     the sum before the checks, the newest entry's time, the sum after them, the time at
--           which there is room for the first refused one (0 if none was, or there is), and, with
--           reservations ahead, when the log was written and the last turn (0 if not)
--
-- A plain state is a log without reservations ahead, under a policy that has a limit and does not
-- count what it refuses. The answer is three little-endian doubles: the sum before the checks, the
-- newest entry's time, and the time of the entry that has to leave for the first refused check to
-- pass (0 if none was refused, or there is none).
--
-- The common path's names for a key: `left_` is how many entries have left the window (-1: all).
-- `base_`, `oldest_` and `oldest_total_` are the base and the oldest entry that has not left.
-- `kept_` is until when the key stays (-1: the head does not say). `usual_` tells the usual case: a
-- single check, at most one entry has left, the TTL lasts, and a refused check passes when the
-- oldest entry leaves.

@reads_key
@constants
window_, limit_, resolution_, count_refused_, cost_,
@common_constants
window_, limit_, resolution_, cost_,
@others
local count_refused = 0
@start
local left_at_ = clock - window_
local stamp_ = resolution_ == 0 and clock or clock - clock % resolution_ + resolution_
local ends_ = stamp_ + window_
@look
local head_, left_, usual_ = pcall('LINDEX', keys[@key], '0'), 0
local base_, oldest_, oldest_total_, newest_, total_, kept_
do
  local key, tail, first = keys[@key]
  if head_ and (#head_ == 40 or #head_ == 16) then tail = call('LINDEX', key, '-1') end
  if tail and #tail == 16 then
    newest_, total_ = read('<dd', tail)
    if #head_ == 40 then
      base_, oldest_, oldest_total_, kept_ = read('<dddd', head_, 9)
      if oldest_ <= left_at_ and newest_ > left_at_ and base_ % 1 == 0 then
        first = call('LINDEX', key, '2')
        if first and #first == 16 then
          left_, base_ = 1, oldest_total_
          oldest_, oldest_total_ = read('<dd', first)
        end
      end
      -- The usual case.
      if oldest_ > left_at_ and newest_ > oldest_ and newest_ < stamp_ and kept_ >= ends_ and
         checks == 1 and oldest_ % 1 == 0 and newest_ % 1 == 0 and base_ % 1 == 0 then
        local sum = (total_ - base_) % 4503599627370496
        local need = sum + cost_ - limit_
        if need <= 0 and sum % 1 == 0 then
          room, usual_ = 1, true
          found[@key] = pack('<ddd', sum, newest_, 0)
        elseif (oldest_total_ - base_) % 4503599627370496 >= need and sum % 1 == 0 then
          room, usual_ = 0, true
          found[@key] = pack('<ddd', sum, newest_, oldest_)
        end
      end
    else
      first, base_ = read('<dd', head_)
      first, kept_, oldest_ = call('LINDEX', key, '1'), -1, -1
      if first and #first == 16 then oldest_, oldest_total_ = read('<dd', first) end
    end
  end
  if not usual_ then
    local sum, plain = 0
    if not head_ then
      newest_, kept_, plain = 0, 0, true
    elseif newest_ then
      -- Another program's bytes are read as numbers, too, but they are hardly ever whole ones in
      -- the range of times.
      plain = newest_ >= oldest_ and newest_ <= stamp_ and oldest_ >= 0 and newest_ % 1 == 0 and
              oldest_ % 1 == 0 and base_ >= 0 and base_ % 1 == 0 and total_ >= 0 and
              total_ % 1 == 0 and base_ + total_ <= exact
      if plain and oldest_ <= left_at_ then
        if newest_ <= left_at_ then
          -- All have left.
          left_, base_, total_ = -1, 0, 0
        else
          -- More than four that leave together are left to the full kernel.
          repeat
            left_, base_ = left_ + 1, oldest_total_
            first = left_ < 5 and call('LINDEX', key, left_ == 1 and '2' or left_ + 1)
            plain = first and #first == 16
            if plain then
              oldest_, oldest_total_ = read('<dd', first)
              plain = newest_ >= oldest_ and oldest_ % 1 == 0 and base_ >= 0 and base_ % 1 == 0
            end
          until not plain or oldest_ > left_at_
        end
      end
      sum = (total_ - base_) % 4503599627370496
    end
    if plain then
      local passes = 0
      room = (limit_ - sum) / cost_
      if room < checks or checks == 0 then
        local fit = checks > 0 and room >= 1 and room - room % 1 or 0
        local need = sum + fit * cost_ + cost_ - limit_
        if need > sum then
          passes = stamp_
        elseif need > 0 then
          -- A single entry's total is the newest one's.
          local reached = oldest_ == newest_ and total_ or oldest_total_
          reached = (reached - base_) % 4503599627370496
          passes = oldest_
          if reached < need then
            -- More than the oldest has to leave. The first guess is that all entries weigh the
            -- same; then the search halves what is left.
            local low, high, probes = left_ + 1, call('LLEN', key) - 1, 0
            local at = low + math.ceil((need - reached) / reached)
            passes = newest_
            while plain and high - low > 1 do
              if not (at < high) then at = high - 1 elseif at <= low then at = low + 1 end
              local text, time, upto = call('LINDEX', key, string.format('%d', at))
              plain = #text == 16
              if plain then
                time, upto = read('<dd', text)
                plain = time >= oldest_ and time <= newest_ and time % 1 == 0
              end
              probes = probes + 1
              if plain and (upto - base_) % 4503599627370496 < need then
                low, at = at, at + 1
              else
                high, at, passes = at, at - 1, time
              end
              if probes > 1 then at = math.floor((low + high) / 2) end
            end
            if not plain then room = nil end
          end
        end
      end
      if room then found[@key] = pack('<ddd', sum, newest_, passes) end
    end
  end
end
@write
if usual_ then
  if left_ == 1 then
    call('LPOP', key)
    call('LSET', key, '0', pack('<ddddd', 0, base_, oldest_, oldest_total_, kept_))
  end
  call('RPUSH', key, pack('<dd', stamp_, (total_ + cost_) % 4503599627370496))
else
  local changed = left_ ~= 0 or kept_ < 0
  if kept_ < 0 then kept_ = clock + (call('PTTL', key) - 1) * 1000 - grace end
  if not (kept_ >= ends_) then
    line = ends_ - ends_ % grid + grid
    kept_, changed = line, true
  end
  if not head_ then
    total_ = pass * cost_
    call('RPUSH', key, pack('<ddddd', 0, 0, stamp_, total_, kept_), pack('<dd', stamp_, total_))
  else
    if left_ < 0 then
      if oldest_ ~= newest_ then call('LTRIM', key, '0', '1') end
      newest_, oldest_ = stamp_, stamp_
    elseif left_ == 1 then
      call('LPOP', key)
    elseif left_ > 1 then
      call('LTRIM', key, left_, '-1')
    end
    if newest_ == oldest_ and oldest_total_ ~= total_ then
      changed, oldest_total_ = true, total_
    end
    total_ = (total_ + pass * cost_) % 4503599627370496
    if newest_ == stamp_ then
      call('LSET', key, '-1', pack('<dd', stamp_, total_))
    else
      call('RPUSH', key, pack('<dd', stamp_, total_))
    end
    if changed then
      call('LSET', key, '0', pack('<ddddd', 0, base_, oldest_, oldest_total_, kept_))
    end
  end
end
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
  local passed, alive, moved = clock, false, false
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
      passed, last = own, last > own and last or own
      time = last
    else
      -- Reservations come first.
      if written > passed then passed = written end
      if passed > time then time = passed end
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
      last, passed, written, pinned, moved, time = 0, clock, 0, 0, false, now
      if write then
        write_head(key, 0, 0, 0, 0)
        call('PEXPIRE', key, ttl_of(clock))
      end
    elseif moved then
      local own_end = newest + window
      last = clock + last - passed
      newest, passed, written = entry_time(last), clock, last > clock and clock or 0
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
  local early = now < time and passed < time

  local admitted = floor((limit - sum) / cost)
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
      local room = limit - (total - before) % modulus
      if weight > room then weight = room > 0 and room or 0 end
    end
    if weight > modulus - 1 - sum then weight = modulus - 1 - sum end
    sum = sum + weight
    if write then
      in_list = sum
      local ttl = longest_ttl(key, stamp + window)
      -- Drops what has left the window by now; or, if the rest is too much to be counted, by the
      -- turn.
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
      if time > passed then
        write_head(key, passed, head_base, time, pinned)
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
