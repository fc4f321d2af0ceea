-- The meter's part of the common path of several keys (lua/record_all.lua): keys that hold one
-- number of sixteen digits, or, if T is not a whole number of microseconds, "whole/part" as well.
-- Then several equal checks are left to the full kernel.
--
-- Constants cost * T (whole), burst * T (whole), parts, cost * T (part), burst * T (part)

@look
local step, full, parts = constant[p + 1], clock + constant[p + 2], constant[p + 3]
local tat, part = 0, 0
if stored then
  if #stored == 16 then
    tat = find(stored, '^[1-9]%d+$') and stored
  else
    -- An error, and any other text, gives no number.
    tat, part = string.match(#stored > 16 and stored or '', '^([1-9]%d+)/(%d+)$')
  end
  if tat then tat, part = tat + 0, part + 0 end  -- cheaper than tonumber()
end
if parts == 1 then
  if not stored then found[i] = '0000000000000000' end
  -- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
  if tat and (not stored or #stored == 16) and tat - full <= full - clock then
    local start = tat < clock and clock or tat
    room = (full - start) / step
    room = room - room % 1
    seen[p + 1], seen[p + 2] = tat, start
  end
elseif tat and part < parts and checks < 2 and
       (tat < full or tat == full and part <= constant[p + 5]) then
  found[i] = (stored or '0') .. ' '
  local next, next_part = tat, part
  if tat < clock then next, next_part = clock, 0 end
  next, next_part = next + step, next_part + constant[p + 4]
  if next_part >= parts then next, next_part = next + 1, next_part - parts end
  room = (next < full or next == full and next_part <= constant[p + 5]) and 1 or 0
  seen[p + 1], seen[p + 2] = next, next_part
  seen[p + 3], seen[p + 4] = stored and #stored, tat + (part > 0 and 1 or 0)
end
@write
if constant[p + 3] == 1 then
  local grown = seen[p + 2] + n * constant[p + 1] - seen[p + 1]
  -- Checks whose keys have equal steps share the text.
  if grown ~= seen[p + 3] then seen[p + 3], seen[p + 4] = grown, format('%d', grown) end
  local sum = pcall('INCRBY', key, seen[p + 4])
  if sum ~= seen[p + 1] + grown then
    failed = sum
  elseif sum % grid < grown then
    line = sum - sum % grid + grid
  end
else
  local next, part = seen[p + 1], seen[p + 2]
  local text = format(part > 0 and '%d/%d' or '%d', next, part)
  local done
  if #text == seen[p + 3] then
    done = pcall('SETRANGE', key, '0', text)
    if done ~= #text then failed = done end
  else
    done = pcall('SET', key, text, 'KEEPTTL')
    if done.err then failed = done end
  end
  if part > 0 then next = next + 1 end
  if seen[p + 4] < next - next % grid then line = next - next % grid + grid end
end
@constants
own = {constant[p + 2], constant[p + 5], constant[p + 3], format('%d', constant[p + 1]),
       constant[p + 4]}
