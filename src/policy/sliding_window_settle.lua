-- Behind sliding_window.lua: takes a request back (sliding_window::give_back).

local function give_back(key, ticket)
  local turn = ticket.counted
  local state = {}
  check(key, 0, false, state, 1)
  local start, current, previous, written, last = state[1], state[2], state[3], state[4], state[5]
  if refusal or start < 0 then return end
  local passed = written > 0 and written or start
  if passed - clock > window then return end
  if passed < clock then passed = clock end
  local own = turn - turn % window
  if own == start then current = current > cost and current - cost or 0 end
  if own + window == start then previous = previous > cost and previous - cost or 0 end
  if current == 0 and last > start then last = start end
  local ahead = last > passed
  local ends = start + 2 * window
  if ahead and last > ends then ends = last end
  local ttl = ceil((ends - clock) / 1000)
  if ttl <= 0 or not ahead and current + previous == 0 then
    call('DEL', key)
  elseif ahead then
    call('SET', key, struct.pack('<ddddd', start, current, previous, passed, last), 'PX', format('%d', ttl))
  else
    call('SET', key, struct.pack('<ddd', start, current, previous), 'PX', format('%d', ttl))
  end
end
