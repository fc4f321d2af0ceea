-- The common path of meter.lua for rates whose T is not a whole number of microseconds (3 per
-- second): checks of keys that hold a TAT, "whole/part" or sixteen digits, or nothing. A refused
-- check writes nothing. Keys in other states are left to the full kernel.
--
-- @read   see lua/read_keys.lua
-- ARGV   the constants of meter.lua, packed as little-endian doubles. Then the counts, as
--        run_one.lua describes them
-- Reply  the clock's two numbers, and what each key held: 0 if there was none. A space stands
--        between any two. Or that of run_one.lua

local first_arg, rare, found = 1
local call, pcall, tonumber, keys, counted = redis.call, redis.pcall, tonumber, KEYS, ARGV[2]
local match, format, n = string.match, string.format, #keys
local burst, burst_part, parts, step, step_part = struct.unpack('<ddddd', ARGV[1])
local last = clock + burst
-- What keys share: the next TAT of full buckets, and when a key expires whose TAT has crossed the
-- last line of the grid.
local full_text, last_line, expiry
@read
for i = 1, n do
  local stored, tat, part, done = found[i], 0, 0
  if stored then
    if #stored == 16 then
      tat = match(stored, '^[1-9]%d+$')
    else
      -- An error, and any other text, gives no number.
      tat, part = match(#stored > 16 and stored or '', '^([1-9]%d+)/(%d+)$')
    end
    if tat then tat, part = tat + 0, part + 0 end  -- cheaper than tonumber()
  end
  local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
  -- If the TAT is further ahead, the clock was set back. MGET shows a key of another type as
  -- absent, and only a write finds out: a look at an absent key is left to the full kernel.
  if tat and part < parts and (tat < last or tat == last and part <= burst_part) and
     (stored or checks > 0) then
    local next, next_part, ends, text = tat, part, tat
    if part > 0 then ends = tat + 1 end
    if tat < clock then
      next, next_part = clock, 0
      if not counted then text = full_text end
    end
    done = true
    -- As in meter.lua: `size` checks at once, which cost `by`; after each success twice as many,
    -- after a failure one again.
    local passes, size, by, by_part = false, 1, step, step_part
    while checks > 0 do
      local sum, sum_part = next + by, next_part + by_part
      if sum_part >= parts then sum, sum_part = sum + 1, sum_part - parts end
      if size > checks or sum > last or sum == last and sum_part > burst_part then
        if size == 1 then break end
        size, by, by_part = 1, step, step_part
      else
        next, next_part, checks, passes = sum, sum_part, checks - size, true
        if checks > 0 then
          size, by, by_part = 2 * size, 2 * by, 2 * by_part
          if by_part >= parts then by, by_part = by + 1, by_part - parts end
        end
      end
    end
    if passes then
      if not text then
        text = format(next_part > 0 and '%d/%d' or '%d', next, next_part)
        if tat < clock then full_text = text end
      end
      if stored and #text == #stored then
        done = pcall('SETRANGE', keys[i], '0', text)
        if done ~= #text then return done end
      else
        done = pcall('SET', keys[i], text, 'KEEPTTL', stored and 'XX' or 'NX')
        if done and done.err then return done end
      end
      if next_part > 0 then next = next + 1 end
      local line = next - next % grid
      if done and ends < line then
        if line ~= last_line then
          last_line, expiry = line, format('%d', (line + grid + grace) / 1000)
        end
        call('PEXPIREAT', keys[i], expiry)
      end
    end
  end
  if not done then
    rare = rare or {}
    rare[i] = true
  elseif not stored then
    found[i] = '0'
  end
end
if not rare then
  found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  return n == 1 and found[1] or table.concat(found, ' ')
end
local counts, before = ARGV, 1
local ARGV = {burst, burst_part, parts, format('%d', step), step_part}
