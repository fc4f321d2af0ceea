-- The common path of fixed_window.lua: checks of keys that hold a window which was not opened
-- ahead, or nothing, under a policy that has a limit and does not count what it refuses. A refused
-- check writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- @read   see lua/read_keys.lua
-- ARGV   cost, window, limit, offset, packed as little-endian doubles; or 0 and the constants of
--        fixed_window.lua: then all keys are left to it. Then the counts, as run_rare.lua describes
--        them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the 24 bytes that it
--        held: zeros if there was none, dashes if it holds something else. Or that of run_rare.lua

local first_arg, rare, found, cost, window, limit, offset = 2
if ARGV[1] ~= '0' then
  local pcall, keys, counted = redis.pcall, KEYS, ARGV[2]
  local read, pack, n = struct.unpack, struct.pack, #keys
  cost, window, limit, offset = read('<dddd', ARGV[1])
  -- A window that began at `last` has ended.
  local last, exact, last_kept, expiry = clock - window, 9007199254740991
  if last < -1 then last = -1 end
  -- A window that began later is open; of several checks, the general form decides.
  local open_after = counted and exact or last
  @read
  for i = 1, n do
    local stored, start, count, kept, done = found[i], -1
    if not stored then
      start, count, kept = 0, 0, 0
    elseif #stored == 24 then
      start, count, kept = read('<ddd', stored)
    end
    if start > open_after and start <= clock and kept >= start + window and count >= 1 and
       count <= limit and start % 1 == 0 and count % 1 == 0 and kept % grid == 0 and
       kept <= exact then
      -- The window is open, and its TTL lasts. Beyond 2^53, all numbers are whole.
      count = count + cost
      if count <= limit then
        done = pcall('SETRANGE', keys[i], '8', pack('<d', count))
        if done ~= 24 then return done end
      end
    else
      if start >= 0 and start <= clock + window and start % 1 == 0 and count >= 0 and
             count % 1 == 0 and count <= exact and kept >= start and kept % grid == 0 and
             kept <= exact then
        local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
        if start <= last or count == 0 then
          count = 0
          if clock > start then start = clock end
          if offset >= 0 then start = start - (start - offset) % window end
        end
        local room = (limit - count) / cost
        room = room - room % 1
        if room > checks then room = checks end
        count = count + room * cost
        if not stored and checks == 0 then
          start = -1
        elseif room > 0 then
          local ends = start + window
          if kept < ends then kept = ends - ends % grid + grid else ends = nil end
          done = pcall('SETRANGE', keys[i], '0', pack('<ddd', start, count, kept))
          if ends and done == 24 then
            if kept ~= last_kept then
              last_kept, expiry = kept, string.format('%d', (kept + grace) / 1000)
            end
            redis.call('PEXPIREAT', keys[i], expiry)
          end
        end
        if not stored then found[i] = string.rep('\0', 24) end
      else
        start = -1
      end
      if start == -1 then
        rare = rare or {}
        rare[i] = true
      elseif done and done ~= 24 then
        if not string.find(done.err, 'WRONGTYPE', 1, true) then return done end
        found[i] = '------------------------'
      end
    end
  end
  if not rare then
    found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
    return n == 1 and found[1] or table.concat(found)
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 1 or 6
local ARGV = rare and {window, limit, offset, '0', cost} or ARGV
