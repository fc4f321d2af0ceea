-- Behind sliding_window.lua: takes a request back (sliding_window::give_back).

local function aligned(time) return time - time % window end

local function give_back(key, ticket)
  local state = {}
  check(key, 0, false, state, 1)
  local start, current, previous = state[1], state[2], state[3]
  local written, at_last = state[4], state[5]
  if refusal or start == foreign then return end
  local turn = written > 0 and start or 0
  start = aligned(start)
  local latest_known_past = written > 0 and written or start
  if latest_known_past - clock > window then return end
  local lasts = written > 0 or current + previous > 0
  -- A longer window of the key may still count what is over here.
  if start + (lasts and 2 * window or 0) <= clock then return end
  if latest_known_past < clock then latest_known_past = clock end
  local own = aligned(ticket.counted)
  if own == start then current = current > cost and current - cost or 0 end
  if own + window == start then previous = previous > cost and previous - cost or 0 end
  if ticket.counted == turn then at_last = at_last > cost and at_last - cost or 0 end

  if turn > latest_known_past then
    -- If nothing is left at the last turn, an earlier turn becomes the last
    -- (sliding_window::step_back).
    local found, found_current, found_previous, found_written, found_at_last =
      ticket[1], ticket[2], ticket[3], ticket[4], ticket[5]
    local found_start = found and aligned(found)
    local found_turn = found and found_written > 0 and found or 0
    if current == 0 then
      local none_left = own == start or own + window == start and previous == 0
      if found and none_left and found_start < own then
        if own == start and found_start + window == start then
          found_current = math.min(found_current, previous)
          found_at_last = math.min(found_at_last, found_current)
        end
        turn, start, at_last = found_turn, found_start, found_at_last
        current, previous = found_current, found_previous
      else
        turn, at_last = start, 0
      end
    elseif found and ticket.counted == turn and at_last == 0 and found_start == start and
           found_turn < turn then
      turn, at_last = found_turn, math.min(found_at_last, current)
    end
  end
  -- Empty windows keep the time that had passed.
  local is_open = turn > latest_known_past or current + previous > 0
  local ends = is_open and start + 2 * window or start
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
  if turn > latest_known_past then
    packed = struct.pack('<ddddd', turn, current, previous, latest_known_past, at_last)
  else
    packed = struct.pack('<dddd', start, current, previous, line)
  end
  call('SET', key, packed, 'PX', ttl_of(line))
end
