-- The meter's part of the common path of several keys (lua/record_all.lua): keys that hold one
-- number of sixteen digits, of a rate whose T is a whole number of microseconds.
--
-- Constants cost * T, burst * T

@look
local step, full, tat = constant[p + 1], clock + constant[p + 2], 0
if not stored then
  found[i] = '0000000000000000'
elseif #stored == 16 and find(stored, '^[1-9]%d+$') then
  tat = tonumber(stored)
else
  tat = nil
end
-- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
if tat and tat - full <= full - clock then
  local start = tat < clock and clock or tat
  room = (full - start) / step
  room = room - room % 1
  seen[p + 1], seen[p + 2] = tat, start
end
@write
local grown = seen[p + 2] + n * constant[p + 1] - seen[p + 1]
-- Checks whose keys have equal steps share the text.
if grown ~= seen[p + 3] then seen[p + 3], seen[p + 4] = grown, format('%d', grown) end
local sum = pcall('INCRBY', key, seen[p + 4])
if not tonumber(sum) then
  failed = sum
elseif sum % grid < grown then
  line = sum - sum % grid + grid
end
@constants
own = {constant[p + 2], '0', '1', format('%d', constant[p + 1]), '0'}
