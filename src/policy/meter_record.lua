-- The common path of meter.lua: checks of keys that hold one number of sixteen digits, as any time
-- from 2001 to 2255 has, or nothing, of a rate whose T is a whole number of microseconds. A refused
-- check writes nothing. Keys in other states are left to the full kernel.
--
-- @read   see lua/read_keys.lua
-- ARGV   cost * T; the same and burst * T, packed as little-endian doubles. Then the counts, as
--        run_one.lua describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the sixteen
--        characters that it held: zeros if there was none, dashes if it holds something else. Or
--        that of run_one.lua

local ARGV = ARGV
local first_arg, step_text, rare, found, find = 1, ARGV[1]
local pcall, tonumber, keys, counted = redis.pcall, tonumber, KEYS, ARGV[3]
local n, step, burst = #keys, struct.unpack('<dd', ARGV[2])
-- No plain TAT lies further ahead than twice the burst, unless the clock was set back.
local last, far = clock + burst - step, clock + burst + burst
-- With several keys, comparing texts of one length finds the TATs that a single check passes: those
-- from `low`, which is the clock, to `high`, and those below `low`, whose buckets are full again.
-- That is cheaper than making numbers of the texts. With empty texts, it finds none.
local low, high = '', ''
@read
if n > 1 then
  find = string.find
  if clock <= last then low, high = string.format('%d', clock), string.format('%d', last) end
  if #low ~= 16 or #high ~= 16 then low, high = '', '' end
end
-- What keys share: the next TAT of full buckets, and the grid line behind which it lies; what is
-- added to new ones; when those expire whose TAT has crossed the last line.
local next_text, next_line, line_text, added, added_text, last_line, expiry
for i = 1, n do
  local stored = found[i]
  local grown, sum, line, count, is_done = step
  if counted then
    count = ARGV[i + 2]
    if count == '1' then count = nil end
  end
  if stored and #stored == 16 and not count then
    if stored >= low then
      if stored <= high then
        sum = pcall('INCRBY', keys[i], step_text)
        is_done = true
      end
    elseif find(stored, '^[1-9]%d+$') then
      -- A number alone, because SETRANGE, unlike INCRBY, would overwrite any text.
      if not next_text then
        next_line = clock + step - (clock + step) % grid
        next_text = string.format('%d', clock + step)
        line_text = string.format('%d', next_line)
      end
      local length = pcall('SETRANGE', keys[i], '0', next_text)
      if length ~= 16 then return length end
      if stored < line_text then line = next_line end
      is_done = true
    end
  end
  if not is_done then
    local tat = not stored and 0 or #stored == 16 and tonumber(stored)
    if not count and tat and tat >= 1 and tat < clock and clock <= last then
      grown = clock - tat + step
      sum = pcall('INCRBY', keys[i], string.format('%d', grown))
    elseif count or not tat or not (tat >= clock and tat <= far) then
      -- The general form of what the other branches do.
      local checks = tonumber(count or 1)
      if not tat or not (tat <= far) or stored and not (tat >= 1) or
         checks == 0 and not stored then
        rare = rare or {}
        rare[i] = true
      else
        local next = tat < clock and clock or tat
        local room = (clock + burst - next) / step
        room = room - room % 1
        if room > checks then room = checks end
        if room > 0 then
          grown = next + room * step - tat
          if grown ~= added then
            added, added_text = grown, string.format('%d', grown)
          end
          sum = pcall('INCRBY', keys[i], added_text)
        end
      end
    elseif tat <= last then
      sum = pcall('INCRBY', keys[i], step_text)
    end
  end
  if sum then
    local number = tonumber(sum)  -- cheaper than type()
    if number then
      if number % grid < grown then line = number - number % grid end
    elseif string.find(sum.err, 'WRONGTYPE', 1, true) or
           string.find(sum.err, 'not an integer', 1, true) then
      stored = '----------------'
      found[i] = stored
    else
      return sum
    end
  end
  if line then
    if line ~= last_line then
      last_line, expiry = line, string.format('%d', (line + grid + grace) / 1000)
    end
    redis.call('PEXPIREAT', keys[i], expiry)
  end
  if not stored then found[i] = '0000000000000000' end
end
if not rare then
  local first = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  if n == 1 then return first end
  found[1] = first
  return table.concat(found)
end
local counts, before, ARGV = ARGV, 2, {burst, '0', '1', step_text, '0'}
