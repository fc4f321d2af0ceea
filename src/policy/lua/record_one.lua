-- The common path of checks that have one key each, for a kernel with a part. A refused check
-- writes nothing. A key that is in no plain state is left to the full kernel; it and run_one.lua
-- follow.
--
-- A template of redis/script/script_template.cpp. The lines @constants, @start, @state, @look,
-- @write and @full become what the kernel's part has behind the same line, as record_all.lua says,
-- and so do these:
--
--   @usual   whether @quick does: it counts a single check of a key in the most usual of the plain
--            states, or refuses it; may return an error
--
-- @read is read_keys.lua, or an empty table if the part reads its keys itself (@reads_key); @format
-- unpacks the constants; @behind is the number of arguments before the counts if the constants are
-- not packed.
--
-- ARGV   the part's constants, packed as little-endian doubles; or 0 and those of the full kernel:
--        then all keys are left to it. Then the counts, as run_one.lua describes them
-- Reply  the clock's two numbers, each with a space behind it, and of each key the part's text; if
--        the key holds another type, as many dashes. Or that of run_one.lua

local ARGV = ARGV
local first_arg, rare, found, arguments = 2
local packed, counted = ARGV[1], ARGV[2]
if packed ~= '0' then
  local call, pcall, struct, exact, keys = redis.call, redis.pcall, struct, 9007199254740991, KEYS
  local read, pack, n, last_line, expiry = struct.unpack, struct.pack, #keys
  -- `position` is there because a name has to follow the last comma.
  local @constants position = read('@format', packed)
  @start
  @read
  for i = 1, n do
    local stored = found[i]
    @state
    if @usual then
      @quick
    else
      local checks, room, line, failed = counted and tonumber(ARGV[i + 1] or 1) or 1
      @look
      -- MGET shows a key of another type as absent, and only a write finds out.
      if not room or checks == 0 and not stored and not @reads_key then
        rare = rare or {}
        rare[i] = true
      else
        local key, pass = keys[i], room < checks and room - room % 1 or checks
        if pass > 0 then
          @write
          if failed then
            if not string.find(failed.err, 'WRONGTYPE', 1, true) then return failed end
            found[i] = string.rep('-', #found[i])
          elseif line then
            if line ~= last_line then
              last_line, expiry = line, string.format('%d', (line + grace) / 1000)
            end
            call('PEXPIREAT', key, expiry)
          end
        end
      end
    end
  end
  if not rare then
    local first = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
    if n == 1 then return first end
    found[1] = first
    return table.concat(found)
  end
  @full
  first_arg = 1
end
local counts, before = ARGV, rare and 1 or @behind
local ARGV = rare and arguments or ARGV
