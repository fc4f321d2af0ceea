-- Behind meter.lua: takes a request back (meter::give_back).

local function give_back(key, turn, after, alone, held, spaced)
  local state = {}
  check(key, 0, false, state, 1)
  local tat, part, written, last_turn = state[1], state[2], state[3], state[4]
  if refusal or tat <= 0 then return end
  local returned = tonumber(string.match(call('GET', key), '-(%d+)$') or 0)
  local function up() return tat + (part > 0 and 1 or 0) end
  local passed = written
  if written == 0 then passed = tat - burst + (part > burst_part and 1 or 0) end
  if passed < clock then passed = clock end
  if passed - clock > burst then return end
  local known = after > 0
  if not known then after = turn + step end
  local grown = up() + returned - after
  if tat + returned < after then return end
  local is_last = known and grown <= (parts > 1 and 1 or 0)
  if spaced and not (is_last and step > 0) then return end
  local function take(n, p)
    tat, part = tat - n, part - p
    if part < 0 then tat, part = tat - 1, part + parts end
  end
  if is_last and alone then
    local least = math.max(passed, held)
    if up() <= least then return end
    last_turn = math.min(last_turn, math.max(up() + returned - step - (spaced and 0 or burst), held))
    take(step, step_part)
    if spaced and up() > turn then tat, part = turn, 0 end
    if tat < least then tat, part = least, 0 end
  else
    local room = after - returned - math.max(passed, last_turn)
    if room <= 0 then return end
    local n, p = step, step_part
    if n >= room then n, p = room, 0 end
    take(n, p)
    if not is_last then returned = returned + n + (p > 0 and 1 or 0) end
  end
  if up() + returned <= clock then
    call('DEL', key)
    return
  end
  if last_turn <= passed then passed, last_turn = 0, 0 end
  local text
  if last_turn > 0 or returned > 0 then
    text = format('%d/%d@%d>%d-%d', tat, part, passed, last_turn, returned)
  else
    text = part > 0 and format('%d/%d', tat, part) or format('%d', tat)
  end
  call('SET', key, text, 'PX', format('%d', ceil((up() + returned - clock) / 1000)))
end
