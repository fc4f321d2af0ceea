-- The common path of sliding_log.lua: checks of keys that hold a log without reservations ahead, or
-- nothing, under a policy that has a limit and does not count what it refuses. A refused check
-- writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- ARGV   cost, window, limit, resolution, packed as little-endian doubles; or 0 and the constants
--        of sliding_log.lua: then all keys are left to it. Then the counts, as run_rare.lua
--        describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key three little-endian
--        doubles: the sum before the checks, the newest entry's time, and the time of the entry
--        that has to leave for the first refused check to pass (0 if none was refused, or there is
--        none). Or that of run_rare.lua

local first_arg, rare, found, cost, window, limit, resolution = 2
if ARGV[1] ~= '0' then
  local call, pcall, keys, counted = redis.call, redis.pcall, KEYS, ARGV[2]
  local read, pack, n = struct.unpack, struct.pack, #keys
  cost, window, limit, resolution = read('<dddd', ARGV[1])
  local modulus, left_at, expiry = 4503599627370496, clock - window
  local stamp = resolution == 0 and clock or clock - clock % resolution + resolution
  local ends = stamp + window
  found = {}
  for i = 1, n do
    local key, base, oldest, oldest_total, newest, total, kept, usual = keys[i], 0, 0, 0, 0, 0
    local head, first, second, tail = pcall('LINDEX', key, '0')
    if head and (#head == 40 or #head == 16) then tail = call('LINDEX', key, '-1') end
    if tail and #head == 40 and #tail == 16 then
      first, base, oldest, oldest_total, kept = read('<ddddd', head)
      newest, total = read('<dd', tail)
      -- Mostly the TTL lasts, and at most one entry leaves, or has to.
      if newest > left_at and newest < stamp and kept >= ends and not counted and
         oldest % 1 == 0 and newest % 1 == 0 then
        if oldest > left_at then
          local sum = (total - base) % modulus
          -- A single entry's total is the newest one's.
          if newest > oldest and sum >= 0 and sum % 1 == 0 then
            if sum + cost <= limit then
              call('RPUSH', key, pack('<dd', stamp, (total + cost) % modulus))
              usual = pack('<ddd', sum, newest, 0)
            elseif (oldest_total - base) % modulus >= sum + cost - limit then
              usual = pack('<ddd', sum, newest, oldest)
            end
          end
        elseif oldest >= 0 then
          second = call('LINDEX', key, '2')
          if second and #second == 16 then
            local time, upto = read('<dd', second)
            local sum = (total - oldest_total) % modulus
            if time > left_at and time <= newest and time % 1 == 0 and sum >= 0 and
               sum + cost <= limit and sum % 1 == 0 then
              call('LPOP', key)
              call('LSET', key, '0', pack('<ddddd', 0, oldest_total, time, upto, kept))
              call('RPUSH', key, pack('<dd', stamp, (total + cost) % modulus))
              usual = pack('<ddd', sum, newest, 0)
            end
          end
        end
      end
    end
    if usual then
      found[i] = usual
    else
      local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
      local left, sum, passes, plain = 0, 0, 0, false
      if not head then
        plain, kept = true, 0
      elseif tail then
        plain = #tail == 16
        if plain and #head == 16 then
          first, base = read('<dd', head)
          first = call('LINDEX', key, '1')
          plain = first and #first == 16
          if plain then oldest, oldest_total = read('<dd', first) end
          newest, total = read('<dd', tail)
        end
        if plain then
          if newest <= left_at then
            -- All have left.
            left = -1
          elseif oldest <= left_at then
            -- More than four that leave together are left to the full kernel.
            repeat
              left, base = left + 1, oldest_total
              first = left < 5 and (left == 1 and second or
                                    call('LINDEX', key, left == 1 and '2' or left + 1))
              plain = first and #first == 16
              if plain then oldest, oldest_total = read('<dd', first) end
            until not plain or oldest > left_at
          end
          sum = left < 0 and 0 or (total - base) % modulus
          -- Stray bytes are numbers, too, but hardly ever whole ones.
          plain = plain and newest >= oldest and newest <= stamp and oldest >= 0 and
                  newest % 1 == 0 and oldest % 1 == 0 and total >= 0 and total < modulus and
                  total % 1 == 0 and base >= 0 and base < modulus and base % 1 == 0
        end
      end
      local room = limit - sum
      if checks == 1 then
        room = room >= cost and 1 or 0
      else
        room = room / cost
        room = room - room % 1
        if room > checks then room = checks end
        if room < 0 then room = 0 end
      end
      if plain and (room < checks or checks == 0) then
        local need = sum + room * cost + cost - limit
        if need > sum then
          passes = stamp
        elseif need > 0 then
          -- A single entry's total is the newest one's.
          local reached = ((oldest == newest and total or oldest_total) - base) % modulus
          passes = oldest
          if reached < need then
            -- It is not the oldest alone. Mostly all weigh the same; else the log is halved.
            local low, high, probes = left + 1, call('LLEN', key) - 1, 0
            local at = low + math.ceil((need - reached) / reached)
            passes = newest
            while plain and high - low > 1 do
              if not (at < high) then at = high - 1 elseif at <= low then at = low + 1 end
              local text, time, upto = call('LINDEX', key, string.format('%d', at))
              plain = #text == 16
              if plain then
                time, upto = read('<dd', text)
                plain = time >= oldest and time <= newest and time % 1 == 0
              end
              probes = probes + 1
              if plain and (upto - base) % modulus < need then
                low, at = at, at + 1
              else
                high, at, passes = at, at - 1, time
              end
              if probes > 1 then at = math.floor((low + high) / 2) end
            end
          end
        end
      end
      if plain then
        found[i] = pack('<ddd', sum, newest, passes)
        if room > 0 then
          -- What the log's head says is still so, unless `changed`.
          local changed = left ~= 0 or not kept
          if not kept then kept = clock + (call('PTTL', key) - 1) * 1000 - grace end
          local renewed = not (kept >= ends)
          if renewed then kept = ends - ends % grid + grid end
          if not head then
            total = room * cost
            call('RPUSH', key, pack('<ddddd', 0, 0, stamp, total, kept), pack('<dd', stamp, total))
          else
            if left < 0 then
              if oldest ~= newest then call('LTRIM', key, '0', '1') end
              newest, oldest, total = stamp, stamp, base
            elseif left > 0 then
              call('LTRIM', key, left == 1 and '1' or left, '-1')
            end
            if newest == oldest and oldest_total ~= total then
              changed, oldest_total = true, total
            end
            total = (total + room * cost) % modulus
            if newest == stamp then
              call('LSET', key, '-1', pack('<dd', stamp, total))
            else
              call('RPUSH', key, pack('<dd', stamp, total))
            end
            if changed or renewed then
              call('LSET', key, '0', pack('<ddddd', 0, base, oldest, oldest_total, kept))
            end
          end
          if renewed then
            expiry = expiry or string.format('%d', (kept + grace) / 1000)
            call('PEXPIREAT', key, expiry)
          end
        end
      else
        rare = rare or {}
        rare[i] = true
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
local ARGV = rare and {window, limit, resolution, '0', cost} or ARGV
