-- The meter kernel (meter.hpp): token_bucket, gcra and leaky_bucket.
--
-- Key       the TAT in microseconds, as "whole" or "whole/part"; with reservations ahead, or some
--           given back, "whole/part@written>last turn-returned+until when that is remembered"
-- Constants burst * T (whole, part), parts, cost * T (whole, part)
-- State     the TAT (whole, part); with reservations ahead, when it was written and the last turn
--           (0 if not); what was given back
--
-- check() also returns from when on the bucket is empty.

local burst, burst_part = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])
local parts = tonumber(ARGV[first_arg + 2])
local step_text = ARGV[first_arg + 3]
local step, step_part = tonumber(step_text), tonumber(ARGV[first_arg + 4])

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
  local passed = not moved and written > clock and written or clock
  local time, begin, begin_part = passed, passed, 0
  if now > passed then
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
  local last = time + burst
  local admitted = 0
  if parts == 1 then
    admitted = floor((last - next) / step)
    if admitted < 0 then admitted = 0 end
    if admitted > checks then admitted = checks end
    next = next + admitted * step
  else
    -- `size` checks at once, which cost `by`; after each success twice as many, after a failure one
    -- again.
    local size, by, by_part = 1, step, step_part
    while admitted < checks do
      local n, p = next + by, next_part + by_part
      if p >= parts then n, p = n + 1, p - parts end
      if admitted + size > checks or n > last or n == last and p > burst_part then
        if size == 1 then break end
        size, by, by_part = 1, step, step_part
      else
        next, next_part, admitted = n, p, admitted + size
        size, by, by_part = 2 * size, 2 * by, 2 * by_part
        if by_part >= parts then by, by_part = by + 1, by_part - parts end
      end
    end
  end
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
    if last_turn <= passed then passed, last_turn = 0, 0 end
    if last_turn > 0 or returned > 0 then
      if returned == 0 then ends = 0 end
      local text = format('%d/%d@%d>%d-%d+%d', next, next_part, passed, last_turn, returned, ends)
      call('SET', key, text, 'PX', ttl)
    elseif next_part > 0 then
      call('SET', key, format('%d/%d', next, next_part), 'PX', ttl)
    elseif fresh or moved or not plain then
      call('SET', key, format('%d', next), 'PX', ttl)
    else
      local sum = pcall('INCRBY', key, admitted == 1 and step_text or format('%d', next - tat))
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
