-- The common path of sliding_log.lua: checks of keys that hold a log without turns booked ahead, or
-- nothing, under a policy that has a limit and does not count what it refuses. A refused check
-- writes nothing. Keys in other states are left to the full kernel, each on its own.
--
-- ARGV   cost, window, limit, resolution; or 0 and the constants of sliding_log.lua: then all keys
--        are left to it. Then the counts, as run_rare.lua describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key three entries of 16
--        bytes: the one before the first that is in the window, the newest, and the one that has to
--        leave for the first refused check to pass (zeros if none was refused, or there is none).
--        Or that of run_rare.lua

local first_arg, rare, found = 2
if ARGV[1] ~= '0' then
  local call, pcall, keys, n, counted = redis.call, redis.pcall, KEYS, #KEYS, ARGV[5]
  local read, pack = struct.unpack, struct.pack
  local cost, window, limit, resolution = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0
  local modulus, none, left_at = 4503599627370496, string.rep('\0', 16), clock - window
  local stamp = resolution == 0 and clock or clock - clock % resolution + resolution
  -- How long a key has to stay that gets an entry now, in milliseconds.
  local needed, ttl = (stamp + window + grace - clock) / 1000
  -- Names of places in the list: a number takes longer to write. More than four entries that leave
  -- together are left to the full kernel.
  local places = {'1', '2', '3', '4', '5', [-1] = '-1'}
  found = {}
  for i = 1, n do
    local key, checks = keys[i], counted and tonumber(ARGV[i + 4] or 1) or 1
    local list = pcall('LRANGE', key, '0', '1')
    local head, first = list[1], list[2]
    local plain, base_text, newest_text, left = false, none, none, 0
    local before_all, base, total, newest, oldest, oldest_total = 0, 0, 0, 0, 0, 0
    if list.err then
      -- It holds something else, or may not be read.
    elseif not head then
      plain, first = checks > 0, none
    elseif #head == 16 and first and #first == 16 then
      base_text, newest_text = head, call('LINDEX', key, '-1')
      if #newest_text == 16 then
        newest, total = read('<dd', newest_text)
        plain = newest >= 0 and newest - resolution <= clock and newest % 1 == 0
        if newest <= left_at then
          -- All have left.
          base_text, left = newest_text, -1
        else
          oldest, oldest_total = read('<dd', first)
          while plain and oldest <= left_at do
            left = left + 1
            base_text = first
            first = left < 5 and call('LINDEX', key, places[left + 1])
            plain = first and #first == 16
            if plain then oldest, oldest_total = read('<dd', first) end
          end
        end
        before_all, base = read('<dd', base_text)
        -- Stray bytes are numbers, too, but hardly ever whole ones.
        plain = plain and before_all >= 0 and before_all <= newest and before_all % 1 == 0 and
                base >= 0 and base < modulus and base % 1 == 0 and total >= 0 and
                total < modulus and total % 1 == 0 and oldest >= 0 and oldest <= newest and
                oldest % 1 == 0 and oldest_total >= 0 and oldest_total < modulus and
                oldest_total % 1 == 0
      end
    end
    if plain then
      local sum = (total - base) % modulus
      local room = limit - sum
      if checks == 1 then
        room = room >= cost and 1 or 0
      else
        room = room / cost
        room = room - room % 1
        if room > checks then room = checks end
        if room < 0 then room = 0 end
      end
      local after = sum + room * cost
      local passes = none
      if room < checks or checks == 0 then
        local need = after + cost - limit
        if need > 0 then
          passes = first
          plain = sum > 0 and (oldest_total - base) % modulus >= need
        end
      end
      if plain then
        found[i] = base_text .. newest_text .. passes
        if room > 0 then
          local entry = pack('<dd', stamp, (total + room * cost) % modulus)
          if not head then
            call('RPUSH', key, none, entry)
          else
            if left ~= 0 then call('LTRIM', key, places[left], '-1') end
            if newest == stamp then
              call('LSET', key, '-1', entry)
            else
              call('RPUSH', key, entry)
            end
          end
          if not head or call('PTTL', key) < needed then
            if not ttl then
              local ends = stamp + window
              ends = ends - ends % grid + grid + grace
              ttl = string.format('%d', (ends - clock + 999) / 1000)
            end
            call('PEXPIRE', key, ttl)
          end
        end
      end
    end
    if not plain then
      rare = rare or {}
      rare[i] = true
    end
  end
  if not rare then
    return time[1] .. ' ' .. time[2] .. ' ' .. (n == 1 and found[1] or table.concat(found))
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 4 or 6
local ARGV = rare and {ARGV[2], ARGV[3], ARGV[4], '0', ARGV[1]} or ARGV
