-- The meter's part of the common path of several keys (lua/record_all.lua), if T is a whole number
-- of microseconds: keys that hold one number of sixteen digits.

@constants
step_, burst_,
@start
local full_, added_, added_text_ = clock + burst_
-- Among several checks, comparing texts of one length finds the TATs that a single check passes, as
-- in meter_record.lua; with empty texts, it finds none. INCRBY finds out whether such a text is a
-- number, so the key has to be the first that is written.
local low_, high_ = '', ''
if @nth == 1 and n > 1 and clock <= full_ - step_ then
  low_, high_ = format('%d', clock), format('%d', full_ - step_)
  if #low_ ~= 16 or #high_ ~= 16 then low_, high_ = '', '' end
end
@look
local tat_, next_
if not stored then
  found[@key], tat_ = '0000000000000000', 0
elseif #stored == 16 then
  if checks == 1 and stored >= low_ and stored <= high_ then
    room = 1
  elseif find(stored, '^[1-9]%d+$') then
    tat_ = stored + 0  -- cheaper than tonumber()
  end
end
-- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
if tat_ and tat_ - full_ <= burst_ then
  next_ = tat_ < clock and clock or tat_
  room = (full_ - next_) / step_
end
@refused
if not tat_ and not find(found[@key], '^[1-9]%d+$') then pass = nil end
@write
local grown = tat_ and next_ + pass * step_ - tat_ or step_
-- Keys whose TATs grow equally share the text.
if grown ~= added_ then added_, added_text_ = grown, format('%d', grown) end
local sum = pcall('INCRBY', key, added_text_)
if not tonumber(sum) then
  if not tat_ and find(sum.err, 'not an integer', 1, true) then
    pass = nil
  else
    failed = sum
  end
elseif sum % grid < grown then
  line = sum - sum % grid + grid
end
@full
arguments = {burst_, '0', '1', format('%d', step_), '0'}
