-- Behind meter.lua: takes a request back (meter::give_back), charges one (meter::charge), or lowers
-- what is left (meter::lower).

local function up(tat, part) return tat + (part > 0 and 1 or 0) end

local function later(tat, part, than, than_part)
  return tat > than or tat == than and part > than_part
end

local function load(key)
  local state = {}
  check(key, 0, false, state, 1)
  local upto = 0
  if not refusal and state[5] > 0 then
    upto = tonumber(string.match(call('GET', key), '%+(%d+)$') or 0)
  end
  return state[1], state[2], state[3], state[4], state[5], upto
end

local function store(key, tat, part, latest_known_past, last_turn, returned, upto)
  local ends = up(tat, part)
  if ends < upto then ends = upto end
  if ends + grace <= clock then
    call('DEL', key)
    return
  end
  if last_turn <= latest_known_past then latest_known_past, last_turn = 0, 0 end
  local text
  if last_turn > 0 or returned > 0 then
    text = format('%d/%d@%d>%d-%d+%d', tat, part, latest_known_past, last_turn, returned, upto)
  else
    text = part > 0 and format('%d/%d', tat, part) or format('%d', tat)
  end
  call('SET', key, text, 'PX', ttl_on_grid(ends))
end

-- How far a time that had passed when the state was written lies ahead of the clock.
local function early_by(tat, part, written)
  local latest_known_past = written
  if written == 0 then latest_known_past = tat - burst + (part > burst_part and 1 or 0) end
  return latest_known_past - clock
end

local function give_back(key, ticket)
  local left, left_part, known = ticket[1], ticket[2], ticket[3]
  local tat, part, written, last_turn, returned, upto = load(key)
  if refusal or tat == foreign or tat == 0 or not left then return end
  local latest_known_past = math.max(written, clock)
  if early_by(tat, part, written) > burst or up(tat, part) <= latest_known_past then return end
  local since = returned - known
  if since < 0 or returned == no_limit then return end
  local found_written = 0
  if tat + since == left and part == left_part and not (ticket.leaky and since > 0) then
    -- The last request: restores the state before. If that is not known, subtracts the cost.
    local rest, rest_part = tat - step, part - step_part
    if rest_part < 0 then rest, rest_part = rest - 1, rest_part + parts end
    if ticket[8] and not later(ticket[4] - since, ticket[5], tat, part) then
      rest, rest_part, last_turn = ticket[4] - since, ticket[5], ticket[7]
      -- Exact only if nothing else was given back since.
      if since == 0 then found_written = ticket[6] end
    end
    local least = math.max(latest_known_past, last_turn)
    if least > up(rest, rest_part) then rest, rest_part = least, 0 end
    if not later(tat, part, rest, rest_part) then return end
    tat, part = rest, rest_part
  elseif not ticket.leaky then
    -- Any other: the part that no later request needs. The request ends where it ended when it was
    -- counted, less what was given back since; but not before its own time and cost.
    if later(left, left_part, tat + since, part) then return end
    local back, back_part = left - since, left_part
    local alone, alone_part = ticket.counted + step, step_part
    if parts > 1 and (ticket[4] or later(alone, alone_part, left, left_part)) then
      -- A reservation's turn is rounded up (meter::end_alone).
      alone, alone_part = alone - 1, alone_part + 1
      if alone_part >= parts then alone, alone_part = alone + 1, alone_part - parts end
    end
    if later(alone, alone_part, back, back_part) then back, back_part = alone, alone_part end
    if later(back, back_part, tat, part) then back, back_part = tat, part end
    back = back - math.max(latest_known_past, last_turn)
    if back < 0 or back == 0 and back_part == 0 then return end
    if later(back, back_part, step, step_part) then back, back_part = step, step_part end
    upto = math.max(upto, up(tat, part))
    returned = math.min(returned, no_limit - up(back, back_part)) + up(back, back_part)
    tat, part = tat - back, part - back_part
    if part < 0 then tat, part = tat - 1, part + parts end
  else
    return
  end
  if last_turn > latest_known_past then
    -- A clock behind is read as that time. Of a bucket with fewer units in use, less time is known
    -- to have passed: at that time it is full.
    local full = math.max(1, clock + early_by(tat, part, 0))
    latest_known_past = math.min(latest_known_past, found_written > 0 and found_written or full)
  end
  store(key, tat, part, latest_known_past, last_turn, returned, upto)
end

-- The state now: the TAT, not before the time that has passed; and that time.
local function load_now(key)
  local tat, part, written, last_turn, returned, upto = load(key)
  if refusal or tat == foreign then return foreign end
  local latest_known_past = math.max(written, clock)
  local early = early_by(tat, part, written)
  if early > burst then
    tat, last_turn, upto = tat - early, last_turn - early, clock + 2 * burst
    returned = math.min(returned, no_limit - early) + early
    if last_turn <= clock then last_turn = 0 end
  end
  if early > burst then latest_known_past = clock end
  if tat < latest_known_past then tat, part = latest_known_past, 0 end
  return tat, part, latest_known_past, last_turn, returned, upto
end

local function store_later(key, tat, part, latest_known_past, last_turn, returned, upto)
  if returned > 0 then upto = math.max(upto, up(tat, part)) end
  store(key, tat, part, latest_known_past, last_turn, returned, upto)
end

local function charge(key)
  local tat, part, latest_known_past, last_turn, returned, upto = load_now(key)
  if tat == foreign then return end
  tat, part = tat + step, part + step_part
  if part >= parts then tat, part = tat + 1, part - parts end
  local longest_debt = 2251799813685248
  if tat >= latest_known_past + longest_debt then
    tat, part = latest_known_past + longest_debt, 0
  end
  local turn = tat - burst + (part > burst_part and 1 or 0)
  store_later(key, tat, part, latest_known_past, math.max(last_turn, turn), returned, upto)
end

-- `step` is the time of the most that may be left.
local function lower(key)
  local tat, part, latest_known_past, last_turn, returned, upto = load_now(key)
  if tat == foreign then return end
  local n, p = latest_known_past + burst - step, burst_part - step_part
  if p < 0 then n, p = n - 1, p + parts end
  if later(n, p, tat, part) then
    store_later(key, n, p, latest_known_past, last_turn, returned, upto)
  end
end
