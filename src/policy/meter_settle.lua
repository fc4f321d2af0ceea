-- Behind meter.lua: takes a request back (meter::give_back), charges one (meter::charge), or lowers what is left
-- (meter::lower).

local function load(key)
  local state = {}
  check(key, 0, false, state, 1)
  local returned = 0
  if not refusal and state[1] > 0 then returned = tonumber(string.match(call('GET', key), '-(%d+)$') or 0) end
  return state[1], state[2], state[3], state[4], returned
end

local function up(tat, part) return tat + (part > 0 and 1 or 0) end

local function store(key, tat, part, passed, last_turn, returned)
  if up(tat, part) + returned <= clock then
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
  call('SET', key, text, 'PX', format('%d', ceil((up(tat, part) + returned - clock) / 1000)))
end

local function passed_by(tat, part, written)
  local passed = written
  if written == 0 then passed = tat - burst + (part > burst_part and 1 or 0) end
  return passed
end

local function give_back(key, turn, after, unit, held, spaced, whole_one)
  local tat, part, written, last_turn, returned = load(key)
  if refusal or tat <= 0 then return end
  local passed = math.max(passed_by(tat, part, written), clock)
  if passed - clock > burst then return end
  local known = after > 0
  if after < turn + step then after = turn + step end
  local grown = up(tat, part) + returned - after
  if tat + returned < after then return end
  local roundings = 3
  local of_others = grown > roundings and grown or 0
  local latest = roundings + math.max(turn, after - (spaced and unit or burst))
  local is_last = unit and known and grown <= unit and last_turn <= latest and not (spaced and of_others > 0)
  if spaced and not (is_last and step > 0) then return end
  if is_last then
    local least = math.max(passed, held)
    if up(tat, part) <= least then return end
    last_turn = math.min(last_turn, math.max(up(tat, part) + returned - step - (spaced and unit or burst), held))
    tat, part = tat - step, part - step_part
    if part < 0 then tat, part = tat - 1, part + parts end
    local most, most_part = turn, 0
    if not spaced then most, most_part = turn + burst - step, burst_part - step_part end
    if most_part < 0 then most, most_part = most - 1, most_part + parts end
    if most_part >= parts then most, most_part = most + 1, most_part - parts end
    most = most + of_others
    if whole_one and (tat > most or tat == most and part > most_part) then tat, part = most, most_part end
    if tat < least then tat, part = least, 0 end
  else
    local room = after - returned - math.max(passed, last_turn)
    if room <= 0 then return end
    local back = math.min(step, room)
    tat, returned = tat - back, returned + back
  end
  store(key, tat, part, passed, last_turn, returned)
end

-- As it is now: the TAT, not before the time that has passed; and that.
local function load_now(key)
  local tat, part, written, last_turn, returned = load(key)
  if refusal or tat < 0 then return -1 end
  local passed = passed_by(tat, part, written)
  local early = passed - clock
  if early > burst then
    tat, last_turn = tat - early, last_turn - early
    if last_turn <= clock then last_turn = 0 end
  end
  if early > burst or passed < clock then passed = clock end
  if up(tat, part) + returned < passed then returned = 0 end
  if tat < passed then tat, part = passed, 0 end
  return tat, part, passed, last_turn, returned
end

local function charge(key)
  local tat, part, passed, last_turn, returned = load_now(key)
  if tat < 0 then return end
  tat, part = tat + step, part + step_part
  if part >= parts then tat, part = tat + 1, part - parts end
  local longest_debt = 2251799813685248
  if tat >= passed + longest_debt then tat, part = passed + longest_debt, 0 end
  local turn = tat - burst + (part > burst_part and 1 or 0)
  store(key, tat, part, passed, math.max(last_turn, turn), returned)
end

-- `step` is the time of what shall be left at the most.
local function lower(key)
  local tat, part, passed, last_turn, returned = load_now(key)
  if tat < 0 then return end
  local n, p = passed + burst - step, burst_part - step_part
  if p < 0 then n, p = n - 1, p + parts end
  if n > tat or n == tat and p > part then store(key, n, p, passed, last_turn, returned) end
end
