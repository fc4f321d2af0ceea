-- Behind sliding_window.lua: takes a request back (sliding_window::give_back).

local function give_back(key, turn)
  local state = {}
  check(key, 0, false, state, 1)
  local start, current, previous = state[1], state[2], state[3]
  if refusal or start < 0 or start - clock > window then return end
  local own = turn - turn % window
  if own == start then current = current > cost and current - cost or 0 end
  if own + window == start then previous = previous > cost and previous - cost or 0 end
  local ttl = ceil((start + 2 * window - clock) / 1000)
  if ttl <= 0 or current + previous == 0 then
    call('DEL', key)
  else
    call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', format('%d', ttl))
  end
end
