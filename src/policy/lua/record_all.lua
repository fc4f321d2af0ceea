-- The script of checks that have several keys each and pass all or nothing, for one list of
-- kernels. It answers all checks of a call at one instant, one after the other. Mostly, all keys of
-- a check hold a plain state or nothing; a refused check then writes nothing. A check with a key in
-- another state goes to the full kernels (run_all.lua).
--
-- Also the script of reservations. Equal requests that may all go at once are counted as checks
-- are. If one has to wait, all of them go to the full kernels (reserve.lua), because each needs its
-- own time.
--
-- A template of redis/script/script_template.cpp. A line that begins with "@reserving" is for
-- reservations only. Each block between "@each" and "@end" is repeated for each tier. A block that
-- contains "@write" is left out for a tier whose part does not write, and one that contains "@get"
-- for a tier whose part reads its key itself, as its line "@reads_key" says. In a block, @nth
-- stands for the tier's number, counted from 1; @kernel for the kernel's number (see
-- kernel_at.lua); @key for the index in KEYS of the tier's key for check `i`; @get for a call that
-- reads that key. A name that ends with an underscore gets the tier's number behind it. The
-- following lines become what the kernel's part (meter_plain.lua and others) has behind the same
-- line:
--
--   @constants  the names of its constants, with a comma behind each
--   @start      once in a call
--   @state      `stored` is what the key holds, or an error, which is a table. Reads its numbers,
--               in parts with @usual
--   @look       sets `room` to how many equal checks the key lets pass: perhaps more than are asked
--               for, or fewer than none, or not a whole number. Leaves it nil if the state is not
--               plain. For an absent key, it or @state sets found[@key] to the text that stands for
--               nothing. A part that reads its key itself gets no `stored`, and sets found[@key]
--               for each plain state
--   @refused    if no check passes. Sets `pass` to nil if the state is not plain after all
--   @write      counts `pass` checks in `key`. Sets `failed` if that is an error, and `line` if the
--               key has to stay longer than before: to a line of the grid. The first tier's may set
--               `pass` to nil, having written nothing, if the state is not plain after all
--   @full       sets `arguments` to what the full kernel takes
--
-- Everywhere, @tiers is the number of tiers; @shown the same without the cool-downs at the end, but
-- at least 1; @some_read_keys whether a part reads its key itself; @format what unpacks the
-- constants.
--
-- KEYS   one per check for the first tier, in the same order one for the second, and so on
-- ARGV   1 if checks may have a key in common, else 0; for reservations the longest wait; for each
--        tier its constants: all packed as little-endian doubles. Then for each check the number of
--        equal ones (1 if left out, or look_only)
-- Reply  the clock's two numbers, each with a space behind it, and what each key held, or the text
--        that stands for nothing; nothing of the cool-downs at the end if none of them is there. If
--        full_kernels() has taken checks: now; then for each check the text of what its keys held,
--        or the numbers of run()

local call, pcall, read, pack = redis.call, redis.pcall, struct.unpack, struct.pack
local find, format, tonumber, exact = string.find, string.format, tonumber, 9007199254740991
local keys, counted = KEYS, ARGV[2]
local n, shown = #keys / @tiers, @shown
-- `position` is there because a name has to follow the last comma.
local may_share_keys,
@reserving max_wait,
@each
@constants
@end
      position = read('@format', ARGV[1])
@each
@start
@end
local found, reply, at, text_of, run, read_absent
-- The line of the grid until which the last key was made to stay, and its expiry as text.
local last_line, expiry

if may_share_keys == 1 then
  shown = @tiers
elseif shown < @tiers and pcall('EXISTS', unpack(keys, shown * n + 1)) ~= 0 then
  shown, read_absent = @tiers, true
end
-- If checks may share keys, each has to see what the one before it has counted.
local check_by_check = may_share_keys == 1 or @some_read_keys
if check_by_check then
  found = {}
else
  found = pcall('MGET', unpack(keys, 1, @shown * n))
  if found.err then return found end
  -- MGET shows a key of another type as absent. EXISTS counts the keys that exist; if it is not
  -- allowed, each key is read.
  local absent, count = nil, 0
  for k = 1, @shown * n do
    if not found[k] then
      absent, count = absent or {}, count + 1
      absent[count] = keys[k]
    end
  end
  if read_absent or absent and pcall('EXISTS', unpack(absent)) ~= 0 then
    for k = 1, shown * n do found[k] = found[k] or pcall('GET', keys[k]) end
  end
end

for i = 1, n do
  if check_by_check then
    @each
    if @nth <= shown then found[@key] = @get end
    @end
  end
  local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
  local pass, stored, room, key, line, failed = checks
  @each
  stored, room = found[@key], nil
  @state
  @look
  if not room then
    pass = nil
  elseif pass and room < pass then
    pass = room - room % 1
  end
  @end
  @reserving if pass ~= checks then pass = nil end
  if pass and pass < 1 then
    @each
    @refused
    @end
  elseif pass then
    @each
    if pass then
      key, line, failed = keys[@key], nil, nil
      @write
      if failed then return failed end
      if line then
        if line ~= last_line then last_line, expiry = line, format('%d', (line + grace) / 1000) end
        call('PEXPIREAT', key, expiry)
      end
    end
    @end
  end
  if not pass then
    if not run then
      local all, arguments, behind = {@tiers}
      @each
      @full
      all[#all + 1] = @kernel
      for j = 1, #arguments do all[#all + 1] = arguments[j] end
      @end
      @reserving all[#all + 1] = max_wait
      behind, run = full_kernels(all)
      text_of = function(j)
        local text = found[j]
        for k = n + j, shown * n, n do text = text .. found[k] end
        return text
      end
      reply, at = {clock}, 2
      for j = 1, i - 1 do reply[j + 1], at = text_of(j), j + 2 end
    end
    at, failed = run(i, checks, reply, at)
    if failed then return failed end
  elseif reply then
    reply[at], at = text_of(i), at + 1
  end
end

if not reply then
  found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  return table.concat(found, '', 1, shown * n)
end
return reply
