-- The driver of checks that have several keys each and pass all or nothing: it answers them at one
-- instant, one after the other. They take the common path if their kernels have a part in it, and
-- all their keys hold a plain state or nothing; a refused check writes nothing there. If one of its
-- keys is in another state, the full kernels (run_all.lua) take the whole check, and no other.
--
-- In place of each line that begins with @ stands `if kind == ... then`, and what a kernel's part
-- (meter_joint.lua and others) has behind the same line, for each kernel that has a part:
--
--   look       `stored` is what the key holds. Sets `room` to how many equal checks the key lets
--              pass: perhaps more than are asked for, or fewer than none. Leaves it nil if the
--              state is not plain, or `stored` is no text. For an absent key, sets found[i]
--   write      counts `n` checks, which pass, in `key`. Sets `failed` if that is an error, and
--              `line` if the key has to stay longer than before: to a line of the grid
--   constants  sets `own` to what the full kernel takes
--
-- A part's constants are constant[p + 1] to constant[p + 5]. It keeps in seen[p + 1] to seen[p + 4]
-- what its write needs, and may find there what it left at the check before.
--
-- KEYS   for each check one per tier
-- ARGV   for each tier its kernel's number and five constants of its part, all packed as
--        little-endian doubles, or what full_kernels() takes: then it takes all checks. Then for
--        each check the number of equal ones (1 if left out, or look_only)
-- held   held[i] is the text of KEYS[i], if it has been read
--
-- Leaves in `found` what each key held, or the text that stands for nothing. If full_kernels() has
-- taken checks, `states` has for each of them, by its first key, the states of its tiers.

local pcall, read, pack = redis.pcall, struct.unpack, struct.pack
local find, format = string.find, string.format
local keys, keys_of_all, next_count, exact = KEYS, #KEYS, 2, 9007199254740991
local tiers, constant, run = #ARGV[1] / 48
if tiers < 1 then
  tiers = tonumber(ARGV[1])
  next_count, run = full_kernels(ARGV)
else
  constant = {read('<' .. string.rep('d', 6 * tiers), ARGV[1])}
end
-- The line of the grid until which the last key was made to stay, and its expiry as text.
local found, seen, states, last_line, expiry = {}, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

for first = 1, keys_of_all, tiers do
  local checks = tonumber(ARGV[next_count] or 1)
  local pass = constant and checks
  next_count = next_count + 1
  for t = 1, constant and tiers or 0 do
    local i, p, room = first + t - 1, 6 * t - 5
    local kind = constant[p]
    -- Not by one MGET for all, unless no two checks have a key in common.
    local stored = held[i] or pcall('GET', keys[i])
    found[i] = stored
    @look
    if not room then
      pass = nil
      break
    end
    if room < pass then pass = room end
  end
  if pass and pass > 0 then
    for t = 1, tiers do
      local key, p, n = keys[first + t - 1], 6 * t - 5, pass
      local kind, line, failed = constant[p]
      @write
      if failed then return failed end
      if line then
        if line ~= last_line then last_line, expiry = line, format('%d', (line + grace) / 1000) end
        redis.call('PEXPIREAT', key, expiry)
      end
    end
  elseif not pass then
    if not run then
      local all, unused = {tiers}
      for p = 1, 6 * tiers, 6 do
        local kind, own = constant[p]
        @constants
        all[#all + 1] = kind
        for j = 1, #own do all[#all + 1] = own[j] end
      end
      unused, run = full_kernels(all)
    end
    states = states or {}
    local failed
    states[first], failed = run(first, checks)
    if failed then return failed end
  end
end
