-- The meter kernel (meter.hpp): token_bucket, gcra and leaky_bucket. Sections "_of_parts" are for a
-- T that is not a whole number of microseconds.
--
-- Key       the TAT in microseconds, as "whole" or "whole/part"; with reservations ahead, or some
--           given back, "whole/part@written>last turn-returned+until when that is remembered"
-- Constants burst * T (whole, part), parts, cost * T (whole, part)
-- State     the TAT (whole, part); with reservations ahead, when it was written and the last turn
--           (0 if not); what was given back
--
-- A plain state is one number of sixteen digits, as any time from 2001 to 2255 has; in parts also
-- "whole/part". Its text, as the key holds it, is the answer, with a space behind it for parts.

@constants
burst_, burst_part_, parts_, step_, step_part_,
@common_constants
-- The last is cost * T as text.
burst_, step_, step_text_,
@common_constants_of_parts
burst_, burst_part_, parts_, step_, step_part_,
@others
local burst_part, parts, step_part = 0, 1, 0
@others_of_parts
@rule
room = (full_ - next_) / step_
@rule_of_parts
-- `size` checks at once, which cost `by`; after each success twice as many, after a failure one
-- again.
local size, by, by_part, rest = 1, step_, step_part_, checks
while rest > 0 do
  local sum, sum_part = next_ + by, next_part_ + by_part
  if sum_part >= parts_ then sum, sum_part = sum + 1, sum_part - parts_ end
  if size > rest or sum > full_ or sum == full_ and sum_part > burst_part_ then
    if size == 1 then break end
    size, by, by_part = 1, step_, step_part_
  else
    next_, next_part_, rest = sum, sum_part, rest - size
    if rest > 0 then
      size, by, by_part = 2 * size, 2 * by, 2 * by_part
      if by_part >= parts_ then by, by_part = by + 1, by_part - parts_ end
    end
  end
end
room = checks - rest
@start
local full_, added_, added_text_ = clock + burst_, step_, step_text_
-- Among several checks, comparing texts of one length finds the TATs that a single check passes:
-- those from `low_`, which is the clock, to `high_`; up to `far_` it is refused. That is cheaper
-- than making numbers of the texts. With empty texts, it finds none. Nothing knows yet that such a
-- text is a number: INCRBY finds out, so the key has to be the first that is written.
local low_, high_, far_ = '', '', ''
if @nth == 1 and n > 1 and clock <= full_ - step_ then
  low_, high_, far_ = format('%d', clock), format('%d', full_ - step_), format('%d', full_ + burst_)
  if #low_ ~= 16 or #far_ ~= 16 then low_, high_, far_ = '', '', '' end
end
-- What buckets share that are full again: the next TAT, and the line of the grid behind which it
-- is.
@one local next_text_, next_line_, line_text_
@quick
local quick_
if stored and #stored == 16 and not counted then
  if stored >= low_ then
    if stored <= high_ then
      -- If it is no number, @look goes on.
      local sum = pcall('INCRBY', keys[@key], step_text_)
      done = tonumber(sum)
      if done and sum % grid < step_ then line = sum - sum % grid + grid end
    elseif stored <= far_ and find(stored, '^[1-9]%d+$') then
      quick_ = 0
    end
  elseif find(stored, '^[1-9]%d+$') then
    -- A number alone, because SETRANGE, unlike INCRBY, would overwrite any text.
    if not next_text_ then
      next_line_ = clock + step_ - (clock + step_) % grid
      next_text_, line_text_ = format('%d', clock + step_), format('%d', next_line_)
    end
    failed = pcall('SETRANGE', keys[@key], '0', next_text_)
    if failed ~= 16 then return failed end
    if stored < line_text_ then line = next_line_ + grid end
    done = true
  end
end
@look
local tat_, next_
if not stored then
  found[@key], tat_ = '0000000000000000', 0
elseif #stored == 16 then
  @one if quick_ then room = 0 else tat_ = tonumber(stored) end
  @several if checks == 1 and stored >= low_ then
  @several   if stored <= high_ then room = 1 elseif stored <= far_ then room = 0 end
  @several end
  -- Adding 0 is cheaper than tonumber().
  @several if not room and find(stored, '^[1-9]%d+$') then tat_ = stored + 0 end
end
-- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
if tat_ and tat_ - full_ <= burst_ and (tat_ >= 1 or not stored) then
  next_ = tat_ < clock and clock or tat_
  @insert rule
end
@refused
@several if not tat_ and not find(found[@key], '^[1-9]%d+$') then pass = nil end
@write
local grown = tat_ and next_ + pass * step_ - tat_ or step_
-- Keys whose TATs grow equally share the text.
if grown ~= added_ then added_, added_text_ = grown, format('%d', grown) end
local sum = pcall('INCRBY', key, added_text_)
if not tonumber(sum) then  -- cheaper than type()
  failed = sum
elseif sum % grid < grown then
  line = sum - sum % grid + grid
end
@quick_of_parts
@refused_of_parts
@start_of_parts
local full_, full_text_ = clock + burst_
@look_of_parts
local tat_, part_, size_, next_, next_part_, text_ = 0, 0, 0
if not stored then
  @one found[@key] = '0'
else
  size_ = #stored
  if size_ == 16 then
    tat_ = find(stored, '^[1-9]%d+$') and stored
  else
    -- An error, and any other text, gives no number.
    tat_, part_ = match(size_ > 16 and stored or '', '^([1-9]%d+)/(%d+)$')
  end
  if tat_ then tat_, part_ = tat_ + 0, part_ + 0 end  -- cheaper than tonumber()
end
if tat_ and part_ < parts_ and (tat_ < full_ or tat_ == full_ and part_ <= burst_part_)
   @several and checks < 2
then
  @several found[@key] = (stored or '0') .. ' '
  next_, next_part_ = tat_, part_
  if tat_ < clock then
    next_, next_part_ = clock, 0
    -- What keys share whose buckets are full.
    if checks == 1 then text_ = full_text_ end
  end
  @insert rule
end
@write_of_parts
if not text_ then
  text_ = format(next_part_ > 0 and '%d/%d' or '%d', next_, next_part_)
  if tat_ < clock and checks == 1 then full_text_ = text_ end
end
local done
if size_ == #text_ then
  done = pcall('SETRANGE', key, '0', text_)
  if done ~= size_ then failed = done end
else
  -- A key of another type looked absent.
  @one done = pcall('SET', key, text_, 'KEEPTTL', size_ > 0 and 'XX' or 'NX')
  @several done = pcall('SET', key, text_, 'KEEPTTL')
  if not done then pass = nil elseif done.err then failed = done end
end
if part_ > 0 then tat_ = tat_ + 1 end
if next_part_ > 0 then next_ = next_ + 1 end
if tat_ < next_ - next_ % grid then line = next_ - next_ % grid + grid end
@full
-- check() also returns from when on the bucket is empty.
local function check(key, checks, write, into, at)
  local tat, part, written, last_turn, returned, upto, plain = 0, 0, 0, 0, 0, 0, true
  local stored = pcall('GET', key)
  if stored then
    tat = type(stored) == 'string' and tonumber(stored)
    if not tat then
      plain = false
      local a, b, c, d, e, f
      if refused(stored) then return 0 end
      if type(stored) == 'string' then
        a, b = string.match(stored, '^(%d+)/(%d+)$')
        if not a then
          a, b, c, d, e, f = string.match(stored, '^(%d+)/(%d+)@(%d+)>(%d+)-(%d+)%+(%d+)$')
        end
      end
      tat, part = tonumber(a or foreign), tonumber(b or 0)
      written, last_turn = tonumber(c or 0), tonumber(d or 0)
      returned, upto = tonumber(e or 0), tonumber(f or 0)
      if not (whole(written) and whole(last_turn) and whole(returned) and whole(upto)) then
        tat, written, last_turn = foreign, 0, 0
      end
      -- No receipt can meet it any more.
      if upto <= clock then returned, upto = 0, 0 end
      -- Written under another rate, with other parts: round up.
      if part >= parts then tat, part = tat + 1, 0 end
    end
    -- A number, but none of ours (not a whole one, an infinite one).
    if not whole(tat) then tat, part = foreign, 0 end
  end
  into[at], into[at + 1], into[at + 2] = tat, part, written
  into[at + 3], into[at + 4] = last_turn, returned
  if tat == foreign then return 0 end

  -- Far ahead of the clock, the bucket counts as full from now on.
  local early = written - clock
  if written == 0 then early = tat - burst + (part > burst_part and 1 or 0) - clock end
  local moved = early > burst
  if moved then
    -- Counted as given back, because earlier receipts have a TAT that lies so much further ahead.
    tat, last_turn, upto = tat - early, last_turn - early, clock + 2 * burst
    returned = returned > no_limit - early and no_limit or returned + early
  end
  local latest_known_past = not moved and written > clock and written or clock
  local time, begin, begin_part = latest_known_past, latest_known_past, 0
  if now > latest_known_past then
    time, begin = now, now
    -- The earliest exact time that rounds up to the turn.
    if parts > 1 then begin, begin_part = now - 1, 1 end
  end

  local fresh = tat < begin or tat == begin and part < begin_part
  -- A kernel writes neither 007 nor 1e3.
  if stored and plain and not string.find(stored, '^[1-9]%d*$') then
    into[at] = foreign
    return 0
  end
  local next, next_part = tat, part
  if fresh then next, next_part = begin, begin_part end
  local full, room = time + burst, nil
  @insert rule
  local admitted = floor(room)
  if admitted < 0 then admitted = 0 end
  if admitted > checks then admitted = checks end
  @whole next = next + admitted * step
  local turn
  if admitted == 0 then
    local n, p = next + step, next_part + step_part
    if p >= parts then n, p = n + 1, p - parts end
    turn = n - burst + (p > burst_part and 1 or 0)
  end
  if not write then return admitted, turn, tat + (part > 0 and 1 or 0) end

  if admitted > 0 or moved then
    local ends = next + (next_part > 0 and 1 or 0)
    if returned > 0 and ends < upto then ends = upto end
    local ttl = ttl_on_grid(ends)
    if admitted > 0 and time > last_turn then last_turn = time end
    if last_turn <= latest_known_past then latest_known_past, last_turn = 0, 0 end
    if last_turn > 0 or returned > 0 then
      if returned == 0 then ends = 0 end
      local text = format('%d/%d@%d>%d-%d+%d', next, next_part, latest_known_past, last_turn,
        returned, ends)
      call('SET', key, text, 'PX', ttl)
    elseif next_part > 0 then
      call('SET', key, format('%d/%d', next, next_part), 'PX', ttl)
    elseif fresh or moved or not plain then
      call('SET', key, format('%d', next), 'PX', ttl)
    else
      local sum = pcall('INCRBY', key, format('%d', next - tat))
      if type(sum) ~= 'table' then
        call('PEXPIRE', key, ttl)
      elseif string.find(sum.err, 'not an integer', 1, true) then
        into[at] = foreign  -- a number, but none of ours
      else
        refused(sum)
      end
    end
  elseif call('PTTL', key) == -1 then
    if upto <= tat then upto = tat + 1 end
    call('PEXPIRE', key, ttl_on_grid(upto))
  end
  return admitted
end
