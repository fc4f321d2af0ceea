-- The meter's part of the common path of several keys (lua/record_all.lua), if T is not a whole
-- number of microseconds: keys that hold one number, or "whole/part". Several equal checks are left
-- to the full kernel.

@constants
step_, burst_, parts_, step_part_, burst_part_,
@start
local full_ = clock + burst_
@look
local tat_, part_, next_, next_part_ = 0, 0
if stored then
  if #stored == 16 then
    tat_ = find(stored, '^[1-9]%d+$') and stored
  else
    -- An error, and any other text, gives no number.
    tat_, part_ = string.match(#stored > 16 and stored or '', '^([1-9]%d+)/(%d+)$')
  end
  if tat_ then tat_, part_ = tat_ + 0, part_ + 0 end  -- cheaper than tonumber()
end
if tat_ and part_ < parts_ and checks < 2 and
   (tat_ < full_ or tat_ == full_ and part_ <= burst_part_) then
  found[@key] = (stored or '0') .. ' '
  next_, next_part_ = tat_, part_
  if tat_ < clock then next_, next_part_ = clock, 0 end
  next_, next_part_ = next_ + step_, next_part_ + step_part_
  if next_part_ >= parts_ then next_, next_part_ = next_ + 1, next_part_ - parts_ end
  room = (next_ < full_ or next_ == full_ and next_part_ <= burst_part_) and 1 or 0
end
@write
local text, done = format(next_part_ > 0 and '%d/%d' or '%d', next_, next_part_)
if #text + 1 == #found[@key] then
  done = pcall('SETRANGE', key, '0', text)
  if done ~= #text then failed = done end
else
  done = pcall('SET', key, text, 'KEEPTTL')
  if done.err then failed = done end
end
if part_ > 0 then tat_ = tat_ + 1 end
if next_part_ > 0 then next_ = next_ + 1 end
if tat_ < next_ - next_ % grid then line = next_ - next_ % grid + grid end
@full
arguments = {burst_, burst_part_, parts_, format('%d', step_), step_part_}
