-- The meter's part of the common path of several keys (lua/record_all.lua), if T is a whole number
-- of microseconds: keys that hold one number of sixteen digits.

@constants
step_, burst_,
@start
local full_, added_, added_text_ = clock + burst_
@look
local tat_, next_
if not stored then
  found[@key], tat_ = '0000000000000000', 0
elseif #stored == 16 and find(stored, '^[1-9]%d+$') then
  tat_ = stored + 0  -- cheaper than tonumber()
end
-- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
if tat_ and tat_ - full_ <= burst_ then
  next_ = tat_ < clock and clock or tat_
  room = (full_ - next_) / step_
end
@write
local grown = next_ + pass * step_ - tat_
-- Keys whose TATs grow by as much share the text.
if grown ~= added_ then added_, added_text_ = grown, format('%d', grown) end
local sum = pcall('INCRBY', key, added_text_)
if sum ~= tat_ + grown then
  failed = sum
elseif sum % grid < grown then
  line = sum - sum % grid + grid
end
@full
arguments = {burst_, '0', '1', format('%d', step_), '0'}
