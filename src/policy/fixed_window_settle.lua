-- Behind fixed_window.lua: takes a request back (fixed_window::give_back).

local function give_back(key, ticket)
  local turn = ticket.counted
  local state = {}
  check(key, 0, false, state, 1)
  local start, count, written = state[1], state[2], state[3]
  if refusal or start == foreign or count == 0 then return end
  local latest_known_past = written > 0 and written or start
  if latest_known_past < clock then latest_known_past = clock end
  if latest_known_past - clock > window or clock >= start + window then return end
  local ahead, before, count_before = start > latest_known_past, 0, 0
  if ahead then before, count_before = struct.unpack('<dd', call('GET', key), 25) end
  if turn >= start and turn < start + window then
    count = count > cost and count - cost or 0
    if count == 0 and ahead then
      -- Nothing is left in the last window: the window before it is the last.
      if before > 0 then
        start, count, before, count_before = before, count_before, 0, 0
      elseif ticket[1] and ticket[1] < start then
        start, count = ticket[1], ticket[2]
      end
    end
  elseif ahead and before > 0 and turn >= before and turn < before + window then
    count_before = count_before > cost and count_before - cost or 0
  end
  -- An empty window keeps the time that had passed.
  local is_open = count > 0 or start > latest_known_past
  local ends = is_open and start + window or start
  if ends + grace <= clock then
    if not is_open then
      call('DEL', key)
      return
    end
    -- A longer window of the key may still count what is over here.
    ends = clock
  end
  local line = line_after(ends)
  -- A longer window may share the key.
  if is_open and kept > line then line = kept end
  local packed
  if start > latest_known_past then
    packed = struct.pack('<ddddd', start, count, latest_known_past, before, count_before)
  else
    packed = struct.pack('<ddd', start, count, line)
  end
  call('SET', key, packed, 'PX', ttl_of(line))
end
