-- Behind sliding_log.lua: takes a request back (sliding_log::give_back).

local most_newer = 128  -- as in sliding_log.hpp

local function give_back(key, ticket)
  local state = {}
  check(key, 0, false, state, 1)
  if refusal or state[1] == foreign then return end
  local stamp, length = entry_time(ticket.counted), call('LLEN', key)
  if length < 2 then return end
  local head = call('LINDEX', key, '0')
  local written, head_base, last, pinned = read_head(head)
  local newest = entry(key, -1)
  -- The receipt's time is not this clock's.
  if (written == 0 and newest - resolution or written) - clock > window then return end
  local latest_known_past = written > clock and written or clock
  -- A longer window of the key may still count it.
  if stamp <= latest_known_past - window then return end

  -- The request's entry and those behind it are few enough to be written again.
  local before = math.max(0, length - most_newer - 2)
  local base = head_base
  if before > 0 then
    local time = entry(key, before)
    if time >= stamp then return end
  end
  before = last_before(key, before, length, function(time) return time < stamp end)
  if before > 0 then newest, base = entry(key, before) end
  local entries, totals, back = call('LRANGE', key, before + 1, '-1'), {}
  for i, text in ipairs(entries) do
    if #text ~= 16 then return end
    local time, total = struct.unpack('<dd', text)
    if strange or not (whole(time) and whole(total)) then return end
    if i == 1 then
      if time ~= stamp then return end
      back = math.min(cost, (total - base) % modulus)
    end
    total = (total - back) % modulus
    if i > 1 or total ~= base then totals[#totals + 1] = struct.pack('<dd', time, total) end
  end
  if not back then return end

  -- A head of 40 bytes may promise the oldest entry's total.
  if #head == 40 then write_head(key, 0, head_base, 0, 0) end
  call('LTRIM', key, '0', before)
  if #totals > 0 then
    call('RPUSH', key, unpack(totals))
    return
  end
  -- The newest entry has gone: an earlier turn becomes the last, and the head keeps the time that
  -- has passed.
  if before == 0 then newest = 0 end
  local ends = before > 0 and newest + window or 0
  if last <= latest_known_past or pinned <= latest_known_past then
    if newest > 0 and resolution > 0 then newest = newest - 1 end
    if last > newest then last = newest end
    if last < latest_known_past then last = latest_known_past end
    written, pinned = latest_known_past, 0
  end
  write_head(key, written, head_base, last, pinned)
  call('PEXPIRE', key, before > 0 and longest_ttl(key, math.max(ends, last)) or ttl_of(last))
end
