-- Behind fixed_window.lua: takes a request back (fixed_window::give_back).

local function give_back(key, turn)
  local state = {}
  check(key, 0, false, state, 1)
  local start, count, written = state[1], state[2], state[3]
  if refusal or start < 0 or count == 0 then return end
  local passed = written > 0 and written or start
  if passed < clock then passed = clock end
  if passed - clock > window or clock >= start + window then return end
  if turn < start or turn >= start + window then return end
  count = count > cost and count - cost or 0
  local ttl = format('%d', ceil((start + window - clock) / 1000))
  if start > passed then
    call('SET', key, struct.pack('<ddd', start, count, passed), 'PX', ttl)
  elseif count == 0 then
    call('DEL', key)
  else
    call('SET', key, struct.pack('<dd', start, count), 'PX', ttl)
  end
end
