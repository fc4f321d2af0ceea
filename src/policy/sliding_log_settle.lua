-- Behind sliding_log.lua: takes a request back (sliding_log::give_back).

local most_steps, near, close = 64, 32, 8

-- The first entry that is not before that time.
local function index_of(key, length, time)
  return last_before(key, 0, length, function(t) return t < time end) + 1
end

local function subtract(key, from, length, amount, before)
  for i = from, length - 1 do
    local time, total = stored_entry(key, i)
    if strange or time >= before then break end
    call('LSET', key, i, struct.pack('<dd', time, (total - amount) % modulus))
  end
end

-- From entry `at` on, which is the first not before `time`, totals are read as less by `amount`. If
-- there are too many steps, or two are close together, one is merged into the entries up to the
-- next.
local function add_step(key, length, time, at, amount)
  local times, sums, gaps, n, place = {}, {}, {}, 0, 1
  if steps then
    n = #steps / 24
    for i = 1, n do times[i], sums[i], gaps[i] = struct.unpack('<ddd', steps, i * 24 - 23) end
  end
  while place <= n and times[place] < time do place = place + 1 end
  if times[place] ~= time then
    local gap = 0
    if place > 1 then
      local behind = at - index_of(key, length, times[place - 1])
      if place <= n then gap = math.max(gaps[place - 1] - behind, 0) end
      gaps[place - 1] = behind
    elseif n > 0 then
      gap = index_of(key, length, times[1]) - at
    end
    table.insert(times, place, time)
    table.insert(sums, place, sums[place - 1] or given)
    table.insert(gaps, place, gap)
    n = n + 1
  end
  for i = place, n do sums[i] = (sums[i] + amount) % modulus end

  local merged
  if place > 1 and gaps[place - 1] <= close then
    merged = place - 1
  elseif n > most_steps then
    merged = 1
    for i = 2, n - 1 do
      if gaps[i] < gaps[merged] then merged = i end
    end
  end
  if merged then
    local before = sums[merged - 1] or given
    local from = index_of(key, length, times[merged])
    subtract(key, from, length, (sums[merged] - before) % modulus, times[merged + 1])
    if merged > 1 then gaps[merged - 1] = gaps[merged - 1] + gaps[merged] end
    table.remove(times, merged)
    table.remove(sums, merged)
    table.remove(gaps, merged)
    n = n - 1
  end
  local packed = {}
  for i = 1, n do packed[i] = struct.pack('<ddd', times[i], sums[i], gaps[i]) end
  steps = table.concat(packed)
end

local function give_back(key, ticket)
  local state = {}
  check(key, 0, false, state, 1)
  if refusal or state[1] == foreign then return end
  local stamp, length = entry_time(ticket.counted), call('LLEN', key)
  if length < 2 then return end
  local head = call('LINDEX', key, '0')
  local written, head_base, last, pinned = read_head(head)
  local newest = entry(key, -1)
  -- The receipt's time is not this clock's.
  if (written == 0 and newest - resolution or written) - clock > window then return end
  local passed = written > clock and written or clock
  if stamp <= passed - window then return end  -- a longer window of the key may still count it

  local before = last_before(key, 0, length, function(time) return time < stamp end)
  local at = before + 1
  if at >= length then return end
  local time, total = entry(key, at)
  if time ~= stamp then return end
  local ignored, base = 0, head_base
  if before > 0 then ignored, base = entry(key, before) end
  if strange then return end
  local weight = (total - base) % modulus
  local back = math.min(cost, weight)
  local is_last = at == length - 1

  if #head == 40 then write_head(key, 0, head_base, 0, 0) end
  -- Removes an entry of which nothing is left. If the user may not call LREM, it stays, and counts
  -- nothing.
  if back == weight then
    if is_last then
      call('LTRIM', key, '0', '-2')
      length = length - 1
    else
      local count = at < length / 2 and '1' or '-1'
      if pcall('LREM', key, count, call('LINDEX', key, at)) == 1 then length = length - 1 end
    end
  end
  if length - at <= near then
    subtract(key, at, length, back, math.huge)
    if back < weight or not is_last then return end
  else
    add_step(key, length, stamp, at, back)
    write_head(key, written, head_base, last, pinned)
    return
  end

  -- The newest entry has gone: an earlier turn becomes the last, and the head keeps the time that
  -- has passed.
  newest = 0
  if length > 1 then newest = entry(key, -1) end
  if steps then
    local carry, step = given_at(newest)
    steps = string.sub(steps, 1, step * 24)
    if steps == '' then head_base, steps, given = (head_base + given) % modulus, nil, 0 end
  end
  local ends = length > 1 and newest + window or 0
  if last <= passed or pinned <= passed then
    if newest > 0 and resolution > 0 then newest = newest - 1 end
    if last > newest then last = newest end
    if last < passed then last = passed end
    written, pinned = passed, 0
  end
  write_head(key, written, head_base, last, pinned)
  call('PEXPIRE', key, length > 1 and longest_ttl(key, math.max(ends, last)) or ttl_of(last))
end
