-- The common path of sliding_window.lua: checks of keys that hold two counts without turns booked
-- ahead, or nothing, under a policy that has a limit and does not count what it refuses. A refused
-- check writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- ARGV   cost, window, limit; or 0 and the constants of sliding_window.lua: then all keys are left
--        to it. Then the counts, as run_rare.lua describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the 32 bytes that it
--        held: zeros if there was none, dashes if it holds something else. Or that of run_rare.lua

local first_arg, rare, found = 2
if ARGV[1] ~= '0' then
  local pcall, keys, n, counted = redis.pcall, KEYS, #KEYS, ARGV[4]
  local read, pack = struct.unpack, struct.pack
  local cost, window, limit = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
  local begin, ttl, ttl_end = clock - clock % window
  if n == 1 then
    found = {(pcall('GET', keys[1]))}
  else
    found = pcall('MGET', unpack(keys))
    if found.err then return found end
  end
  for i = 1, n do
    local stored, done, start, current, previous, kept = found[i], 32, 0, 0, 0, 0
    if stored then
      if #stored == 32 then
        start, current, previous, kept = read('<dddd', stored)
      else
        start = -1
      end
    end
    local checks = 1
    if counted then
      checks = tonumber(ARGV[i + 3] or 1)
      if checks == 0 and not stored then start = -1 end
    end
    -- Stray bytes are numbers, too, but hardly ever whole ones followed by a line of the grid.
    -- Beyond 2^53, all are whole.
    if start >= 0 and start < begin + window + window and current >= 0 and current <= limit and
       previous >= 0 and previous <= limit and kept >= start and kept % grid == 0 and
       kept <= 9007199254740991 and start % 1 == 0 and current % 1 == 0 and previous % 1 == 0 then
      -- A clock behind the state is read as the state's own time.
      local at, left = begin, begin + window - clock
      if start >= begin + window then at, left = begin + window, window end
      local fresh = start < at or not stored
      if fresh then
        previous = start >= at - window and current or 0
        current = 0
      end
      local weight = previous * left
      if weight > 9007199254740991 then
        start = -1
      else
        weight = weight / window
        local part = weight % 1
        if part > 0 then weight = weight - part + 1 end
        local room = limit - weight - current
        if checks == 1 then
          room = room >= cost and 1 or 0
        else
          room = room / cost
          room = room - room % 1
          if room > checks then room = checks end
        end
        if room > 0 then
          current = current + room * cost
          local ends = at + window + window
          if kept < ends then
            kept = ends - ends % grid + grid
            if not fresh then at = start end
            done = pcall('SETRANGE', keys[i], '0', pack('<dddd', at, current, previous, kept))
            if done == 32 then
              if kept ~= ttl_end then
                ttl_end, ttl = kept, string.format('%d', (kept + grace - clock + 999) / 1000)
              end
              redis.call('PEXPIRE', keys[i], ttl)
            end
          elseif fresh then
            done = pcall('SETRANGE', keys[i], '0', pack('<ddd', at, current, previous))
          else
            done = pcall('SETRANGE', keys[i], '8', pack('<d', current))
          end
        end
      end
    else
      start = -1
    end
    if start == -1 then
      rare = rare or {}
      rare[i] = true
    elseif done ~= 32 then
      if not string.find(done.err, 'WRONGTYPE', 1, true) then return done end
      found[i] = '--------------------------------'
    elseif not stored then
      found[i] = string.rep('\0', 32)
    end
  end
  if not rare then
    return time[1] .. ' ' .. time[2] .. ' ' .. (n == 1 and found[1] or table.concat(found))
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 3 or 7
local ARGV = ARGV
if rare then
  -- As sliding_window::most() and its digit base say.
  local window, unused, exponent = tonumber(ARGV[2])
  unused, exponent = math.frexp(4503599627370496 / window)
  local base = 2 ^ (exponent - 1)
  local most = math.min(math.floor(9007199254740991 / window) * base, 4503599627370495)
  ARGV = {ARGV[2], ARGV[3], base, most, '0', ARGV[1]}
end
