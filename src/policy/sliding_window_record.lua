-- The common path of sliding_window.lua: checks of keys that hold two counts without reservations
-- ahead, or nothing, under a policy that has a limit and does not count refused checks. A refused
-- check writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- @read   see lua/read_keys.lua
-- ARGV   cost, window, limit, packed as little-endian doubles; or 0 and the constants of
--        sliding_window.lua: then all keys are left to it. Then the counts, as run_rare.lua
--        describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the 32 bytes that it
--        held: zeros if there was none, dashes if it holds something else. Or that of run_rare.lua

local first_arg, rare, found, cost, window, limit = 2
if ARGV[1] ~= '0' then
  local pcall, keys, counted = redis.pcall, KEYS, ARGV[2]
  local read, pack, n = struct.unpack, struct.pack, #keys
  cost, window, limit = read('<ddd', ARGV[1])
  local begin, exact, last_kept, expiry = clock - clock % window, 9007199254740991
  local second, third = begin + window, begin + 2 * window
  -- How long the previous window still weighs, and the largest count that can be weighed then.
  local rest = second - clock
  local most = exact / rest
  if most > limit then most = limit end
  -- Several checks are left to the general form.
  local this_begin = counted and exact or begin
  @read
  for i = 1, n do
    local stored, start, current, previous, kept, done = found[i], -1
    if not stored then
      start, current, previous, kept = 0, 0, 0, 0
    elseif #stored == 32 then
      start, current, previous, kept = read('<dddd', stored)
    end
    if start == this_begin and kept >= third and kept <= exact and kept % grid == 0 and
       current >= 0 and current <= limit and current % 1 == 0 and
       previous >= 0 and previous <= most and previous % 1 == 0 then
      -- The window is open, and its TTL lasts. No product passes 2^53, so a quotient that is not
      -- whole is not rounded to a whole one.
      current = current + cost
      if previous * rest / window <= limit - current then
        done = pcall('SETRANGE', keys[i], '8', pack('<d', current))
        if done ~= 32 then return done end
      end
    else
      if start >= 0 and start < third and start % 1 == 0 and current >= 0 and
             current <= limit and current % 1 == 0 and previous >= 0 and previous <= limit and
             previous % 1 == 0 and kept >= start and kept % grid == 0 and kept <= exact then
        local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
        -- A clock behind the state is read as the state's own time.
        local at, left = begin, rest
        if start >= second then at, left = second, window end
        local fresh = start < at or not stored
        if fresh then
          previous = start >= at - window and current or 0
          current = 0
        end
        local weight = previous * left
        if weight > exact or checks == 0 and not stored then
          start = -1
        else
          weight = weight / window
          local part = weight % 1
          if part > 0 then weight = weight - part + 1 end
          local room = (limit - weight - current) / cost
          room = room - room % 1
          if room > checks then room = checks end
          if room > 0 then
            current = current + room * cost
            local ends = at + window + window
            if kept < ends then
              kept = ends - ends % grid + grid
              if not fresh then at = start end
              done = pcall('SETRANGE', keys[i], '0', pack('<dddd', at, current, previous, kept))
              if done == 32 then
                if kept ~= last_kept then
                  last_kept, expiry = kept, string.format('%d', (kept + grace) / 1000)
                end
                redis.call('PEXPIREAT', keys[i], expiry)
              end
            elseif fresh then
              done = pcall('SETRANGE', keys[i], '0', pack('<ddd', at, current, previous))
            else
              done = pcall('SETRANGE', keys[i], '8', pack('<d', current))
            end
          end
        end
        if not stored then found[i] = string.rep('\0', 32) end
      else
        start = -1
      end
      if start == -1 then
        rare = rare or {}
        rare[i] = true
      elseif done and done ~= 32 then
        if not string.find(done.err, 'WRONGTYPE', 1, true) then return done end
        found[i] = '--------------------------------'
      end
    end
  end
  if not rare then
    found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
    return n == 1 and found[1] or table.concat(found)
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 1 or 7
local ARGV = ARGV
if rare then
  -- As sliding_window::most() and its digit base say.
  local unused, exponent = math.frexp(4503599627370496 / window)
  local base = 2 ^ (exponent - 1)
  local most = math.min(math.floor(9007199254740991 / window) * base, 4503599627370495)
  ARGV = {window, limit, base, most, '0', cost}
end
