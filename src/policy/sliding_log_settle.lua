-- Behind sliding_log.lua: takes a request back (sliding_log::give_back).

local function give_back(key, turn)
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
  local back = math.min(cost, (total - base) % modulus)
  for i = at, length - 1 do
    time, total = entry(key, i)
    call('LSET', key, i, struct.pack('<dd', time, (total - back) % modulus))
  end
end
