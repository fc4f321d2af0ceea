-- The common path of sliding_log.lua, for plain logs. A refused check writes nothing. Keys in other
-- states are left to the full kernel, each on its own.
--
-- @start, @look, @write   as sliding_log_joint.lua has them, whose names end with an underscore
-- ARGV   cost, window, limit, resolution, packed as little-endian doubles; or 0 and the constants
--        of sliding_log.lua: then all keys are left to it. Then the counts, as run_rare.lua
--        describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the three numbers
--        that sliding_log_joint.lua describes. Or that of run_rare.lua

local first_arg, rare, found, cost_, window_, limit_, resolution_ = 2
if ARGV[1] ~= '0' then
  local call, pcall, read, pack = redis.call, redis.pcall, struct.unpack, struct.pack
  local format, exact, keys, counted = string.format, 9007199254740991, KEYS, ARGV[2]
  local n, last_line, expiry = #keys
  cost_, window_, limit_, resolution_ = read('<dddd', ARGV[1])
  found = {}
  @start
  for i = 1, n do
    local checks, room, line = counted and tonumber(ARGV[i + 1] or 1) or 1
    @look
    if room then
      local key, pass = keys[i], room < checks and room - room % 1 or checks
      if pass > 0 then
        @write
        if line then
          if line ~= last_line then
            last_line, expiry = line, format('%d', (line + grace) / 1000)
          end
          call('PEXPIREAT', key, expiry)
        end
      end
    else
      rare = rare or {}
      rare[i] = true
    end
  end
  if not rare then
    found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
    return n == 1 and found[1] or table.concat(found)
  end
  first_arg = 1
end
local counts, before = ARGV, rare and 1 or 6
local ARGV = rare and {window_, limit_, resolution_, '0', cost_} or ARGV
