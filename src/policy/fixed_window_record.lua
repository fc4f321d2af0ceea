-- The common path of fixed_window.lua: checks of keys that hold a window which was not opened
-- ahead, or nothing, under a policy that has a limit and does not count what it refuses. A refused
-- check writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- ARGV   cost, window, limit, offset; or 0 and the constants of fixed_window.lua: then all keys are
--        left to it. Then the counts, as run_rare.lua describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the 24 bytes that it
--        held: zeros if there was none, dashes if it holds something else. Or that of run_rare.lua

local first_arg, rare, found = 2
if ARGV[1] ~= '0' then
  local pcall, keys, n, counted = redis.pcall, KEYS, #KEYS, ARGV[5]
  local read, pack = struct.unpack, struct.pack
  local cost, window, limit = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
  local last, exact, ttl, ttl_end = clock - window, 9007199254740991
  if n == 1 then
    found = {(pcall('GET', keys[1]))}
  else
    found = pcall('MGET', unpack(keys))
    if found.err then return found end
  end
  for i = 1, n do
    local stored, done, start, count, kept = found[i], 24, 0, 0, 0
    if stored then
      if #stored == 24 then start, count, kept = read('<ddd', stored) else start = -1 end
    end
    -- Stray bytes are numbers, too, but hardly ever whole ones followed by a line of the grid.
    -- Beyond 2^53, all are whole.
    local ours = start % 1 == 0 and count % 1 == 0 and count <= exact and kept % grid == 0 and
                 kept <= exact and kept >= start
    if ours and start > last and start <= clock and count >= 1 and kept >= start + window and
       not counted then
      -- The window is open, and its TTL lasts.
      if count + cost <= limit then
        done = pcall('SETRANGE', keys[i], '8', pack('<d', count + cost))
      end
    elseif ours and start >= 0 and start <= clock + window and count >= 0 then
      local checks = counted and tonumber(ARGV[i + 4] or 1) or 1
      if start <= last or count == 0 then
        count = 0
        if clock > start then start = clock end
        local offset = ARGV[4] + 0
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
          if kept ~= ttl_end then
            ttl_end, ttl = kept, string.format('%d', (kept + grace - clock + 999) / 1000)
          end
          redis.call('PEXPIRE', keys[i], ttl)
        end
      end
    else
      start = -1
    end
    if start == -1 then
      rare = rare or {}
      rare[i] = true
    elseif done ~= 24 then
      if not string.find(done.err, 'WRONGTYPE', 1, true) then return done end
      found[i] = '------------------------'
    elseif not stored then
      found[i] = string.rep('\0', 24)
    end
  end
  if not rare then
    return time[1] .. ' ' .. time[2] .. ' ' .. (n == 1 and found[1] or table.concat(found))
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 4 or 6
local ARGV = rare and {ARGV[2], ARGV[3], ARGV[4], '0', ARGV[1]} or ARGV
