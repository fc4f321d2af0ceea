-- Behind sliding_log.lua: takes a request back (sliding_log::give_back).

local function give_back(key, ticket)
  local turn = ticket.counted
  local state = {}
  check(key, 0, false, state, 1)
  if refusal or state[1] < 0 then return end
  local stamp, length = entry_time(turn), call('LLEN', key)
  if length < 2 then return end
  local before = last_before(key, 0, length, function(time) return time < stamp end)
  local at = before + 1
  if at >= length or length - at > 1000 then return end
  local time, total = entry(key, at)
  if time ~= stamp then return end
  local ignored, base = entry(key, before)
  if strange then return end
  local back = math.min(cost, (total - base) % modulus)
  for i = at, length - 1 do
    time, total = entry(key, i)
    if strange then return end
    call('LSET', key, i, struct.pack('<dd', time, (total - back) % modulus))
  end

  -- If the last turns have been given back, the last is one before (sliding_log::step_back).
  local head = call('LINDEX', key, 0)
  if #head ~= 32 then return end
  local passed, head_base, last, pinned = struct.unpack('<dddd', head)
  if passed < clock then passed = clock end
  if last <= passed or pinned > passed then return end
  local popped = false
  while true do
    time, total = entry(key, -1)
    base = head_base
    if length > 2 then ignored, base = entry(key, -2) end
    if total ~= base or time <= passed then break end
    popped, length = true, length - 1
    if length == 1 then
      call('DEL', key)
      return
    end
    call('LTRIM', key, '0', '-2')
  end
  if not popped then return end
  if time + window <= clock then
    call('DEL', key)
    return
  end
  local latest = resolution > 0 and time - 1 or time
  if latest < last then last = latest end
  call('LSET', key, 0, last > passed and struct.pack('<dddd', passed, head_base, last, 0) or struct.pack('<dd', 0, head_base))
  call('PEXPIRE', key, format('%d', ceil((time + window - clock) / 1000)))
end
