-- The script of checks and of reservations, for one list of kernels: of one, whose checks have a
-- key each, or of several, whose checks have a key for each kernel (a tier) and pass all or
-- nothing. It answers all checks of a call at one instant, as if one came after the other.
--
-- Mostly, all keys hold a plain state or nothing. The common path answers such checks without a
-- function of its own: to make one costs more than many steps. It only notes a check with a key in
-- another state, and a reservation that would have to wait; the full kernels then take them.
--
-- A template of redis/script/scripts.cpp, which puts the sections together: @@head; unless the list
-- needs the full kernels, @@one or @@several; prelude.lua; @@kernels; @@record_one or
-- @@record_several; @@answer. A line that begins with "@one ", "@several ", "@whole " or "@parts "
-- is kept only for a list of one kernel, of several, for a bucket with whole microseconds, or with
-- parts of one. Each block between "@each" and "@end" is repeated for each tier, one with "@write"
-- only for a tier that writes. There, @nth stands for the tier's number, counted from 1; @key for
-- the index in KEYS of the tier's key for check `i`; a name that ends with an underscore gets the
-- tier's number behind it; and these lines become the section of the kernel's file with that name:
--
--   @constants  the names of its constants, with a comma behind each. A name that ends with "text_"
--               is a text, others are numbers. A list with a common path takes @common_constants in
--               their place, and @others makes the others of them. In the full kernel, the names
--               have no underscore
--   @start      once in a call
--   @state      `stored` is what the key holds, or an error, which is a table. Reads its numbers,
--               for @quick and @look
--   @quick      in a list of one kernel: sets `done`, and perhaps `line`, if it has counted or
--               refused a single check of a key in the most usual of the plain states. May return
--               an error
--   @look       sets `room` to how many equal checks the key lets pass: perhaps more than are asked
--               for, or fewer than none, or not a whole number. Leaves it nil if the state is not
--               plain. For an absent key, it or @state sets found[@key] to the text that stands for
--               nothing. A kernel that reads its key itself ("@reads_key") gets no `stored`, and
--               sets found[@key] for each plain state
--   @refused    if no check passes. Sets `pass` to nil if the state is not plain after all
--   @write      counts `pass` checks in `key`. Sets `failed` if that is an error, and `line` if the
--               key has to stay longer than before: to a line of the grid
--   @full       the full kernel, see prelude.lua: a function that makes it, once in a list, and a
--               call of that with the tier's constants
--
-- "@insert rule" stands, in @look and in @full, for the kernel's rule: it sets `room`, or leaves it
-- nil if @full has to compute it in another way. A section with "_of_parts" behind its name is for
-- buckets with parts of a microsecond.
--
-- Everywhere, @locals makes local names of those functions that the common path uses; @flags is
-- `flags` and a comma, but nothing in a list of one with a common path, where it would be 0 and the
-- argument does not have it; @tiers is the number of tiers; @shown the same without the cool-downs
-- at the end, but at least 1; @format unpacks the constants; @width is how many numbers the states
-- of all tiers have, @widths how many each has; @numbers packs them.
--
-- KEYS   one per check for the first tier, in the same order one for the second, and so on
-- ARGV   packed: `flags` (see @flags), 1 if checks may have a key in common, and 2 ^ t more if a
--        request that passes at tier t has to wait until the bucket is empty (for the full
--        kernels); the longest wait of reservations, or -1 for checks; for each tier its constants.
--        Numbers are little-endian doubles, texts end with a zero byte. Then for each check the
--        number of equal ones (1 if left out, or look_only)
-- Reply  the clock's two numbers, each with a space behind it, and what each key held, or the text
--        that stands for nothing; nothing of the cool-downs at the end if none of them is there. If
--        full kernels have taken checks: "!", the clock, and then for each check "p" and the text
--        of what its keys held, or "f" and its numbers as little-endian doubles: the states before,
--        and of reservations, for each of equal ones, its time and the states that it found then
--        (now, if nothing was reserved)

@@head
local ARGV, keys, call, pcall, read = ARGV, KEYS, redis.call, redis.pcall, struct.unpack
@locals
-- `position` is there because a name has to follow the last comma.
local counted, @flags max_wait,
@each
@constants
@end
      position = ARGV[2], read('@format', ARGV[1])
-- `rare` has the noted checks. From `rest` on, the common path has looked at no check.
local n, shown, found, rare, rest = #keys / @tiers, @shown

@@one
@each
@start
@end
-- The line of the grid until which the last key was made to stay, and its expiry as text.
local last_line, expiry
if @reads_key then
  found = {}
elseif n == 1 then
  found = ARGV
  found[1] = pcall('GET', keys[1])
else
  found = pcall('MGET', unpack(keys))
  if found.err then return found end
end
for i = 1, n do
  local stored, pass, line, failed, done = found[i]
  @each
  @state
  @quick
  if not done then
    local checks, room = counted and tonumber(ARGV[i + 1] or 1) or 1
    @look
    -- MGET shows a key of another type as absent, and only a write finds out.
    if room and (checks > 0 or stored or @reads_key) then
      if room < 1 then
        pass = 0
      else
        pass = room < checks and room - room % 1 or checks
      end
      if pass ~= checks and max_wait >= 0 then
        pass = nil
      elseif pass < 1 then
        @refused
      else
        local key = keys[i]
        @write
        if failed then
          if not string.find(failed.err, 'WRONGTYPE', 1, true) and
             not string.find(failed.err, 'not an integer', 1, true) then
            return failed
          end
          pass = nil
        end
      end
    end
    if not pass then
      rare, line = rare or {}, nil
      rare[i] = true
    end
  end
  @end
  if line then
    if line ~= last_line then
      last_line, expiry = line, string.format('%d', (line + grace) / 1000)
    end
    call('PEXPIREAT', keys[i], expiry)
  end
end
if not rare then
  local first = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  if n == 1 then return first end
  found[1] = first
  @whole return table.concat(found)
  @parts return table.concat(found, ' ')
end

@@several
@each
@start
@end
local last_line, expiry, read_absent
if flags == 1 then
  shown = @tiers
elseif shown < @tiers and pcall('EXISTS', unpack(keys, shown * n + 1)) ~= 0 then
  shown, read_absent = @tiers, true
end
-- If checks may share keys, each has to see what the one before it has counted.
local check_by_check = flags == 1 or @some_read_keys
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
    if @nth <= shown and not @reads_key then found[@key] = pcall('GET', keys[@key]) end
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
  if pass ~= checks and max_wait >= 0 then pass = nil end
  if pass and pass < 1 then
    @each
    @refused
    @end
  elseif pass then
    @each
    if pass then
      key, line, failed = keys[@key], nil, nil
      @write
      -- The first key that is written may turn out to be in no plain state.
      if failed then
        if @nth > 1 or not string.find(failed.err, 'not an integer', 1, true) then
          return failed
        end
        pass = nil
      elseif line then
        if line ~= last_line then
          last_line, expiry = line, string.format('%d', (line + grace) / 1000)
        end
        call('PEXPIREAT', key, expiry)
      end
    end
    @end
  end
  if not pass then
    rare = rare or {}
    rare[i] = true
    if flags == 1 then
      rest = i
      break
    end
  end
end
if not rare then
  found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  return table.concat(found, '', 1, shown * n)
end

@@kernels
local check_at, leaky, width, leaky_tiers, scratch, into = {}, {}, {@widths}, 0, {}, {}
for t = 1, @tiers do
  leaky[t] = floor(flags / 2 ^ t) % 2 == 1
  if leaky[t] then leaky_tiers = leaky_tiers + 1 end
end
@each
@full
@end
local function key_of(i, t) return keys[i + (t - 1) * n] end

@@record_one
-- Answers so many equal checks: the states before them go to `into`.
local function record(i, wanted)
  check_at[1](keys[i], wanted, wanted ~= look_only, into, 1)
  if into[1] == foreign and not refusal then into[1] = unreadable(keys[i]) end
end

@@record_several
-- If one leaky bucket delays a request, the others count it at that later time: otherwise later
-- requests there would go together with it. So each of equal checks has its own delay.
local function one_by_one(i, wanted)
  for _ = 1, wanted do
    local start, empty = clock, {}
    for t = 1, @tiers do
      local passes, _, ends = check_at[t](key_of(i, t), 1, false, scratch, 1)
      if refusal or passes == 0 then return end
      empty[t] = ends
      if leaky[t] and ends > start then start = ends end
    end
    for t = 1, @tiers do
      if leaky[t] and empty[t] < start then now = start end
      check_at[t](key_of(i, t), 1, true, scratch, 1)
      now = clock
      if refusal then return end
    end
  end
end

-- Answers so many equal checks: the states before them go to `into`.
local function record(i, wanted)
  local pass, passes, at = wanted, {}, 1
  for t = 1, @tiers do
    local key = key_of(i, t)
    passes[t] = check_at[t](key, wanted, false, into, at)
    if refusal then return end
    if into[at] == foreign then into[at] = unreadable(key) end
    if passes[t] < pass then pass = passes[t] end
    at = at + width[t]
  end
  if pass > 0 and leaky_tiers > 1 then return one_by_one(i, wanted) end
  for t = 1, @tiers do
    -- A tier that allows checks which another one refuses has nothing to write.
    if wanted ~= look_only and (pass > 0 or passes[t] == 0) then
      check_at[t](key_of(i, t), pass, true, scratch, 1)
      if refusal then return end
    end
  end
end

@@answer
-- Counts each of equal requests at the first time at which all kernels let it pass, if that is
-- within the longest wait; else nowhere.
local function reserve(i, wanted)
  local text, mended = '', false
  for _ = 1, wanted do
    local turn, ours, at = clock, true, 1
    for t = 1, @tiers do
      local key = key_of(i, t)
      local passes, own, empty = check_at[t](key, 1, false, into, at)
      if refusal then return text end
      if into[at] == foreign then
        ours = false
        into[at] = unreadable(key)
      else
        if leaky[t] then own = empty elseif passes > 0 then own = clock end
        if own > turn then turn = own end
      end
      at = at + width[t]
    end
    if ours and turn - clock <= max_wait then
      now, at = turn, 1
      for t = 1, @tiers do
        check_at[t](key_of(i, t), 1, true, into, at)
        if refusal then return text end
        at = at + width[t]
      end
      now = clock
    elseif not mended then
      -- Otherwise a state far ahead of the clock would stay there for the next caller.
      mended = true
      for t = 1, @tiers do
        check_at[t](key_of(i, t), 0, true, scratch, 1)
        if refusal then return text end
      end
    end
    text = text .. struct.pack('<d@numbers', turn, unpack(into, 1, @width))
  end
  return text
end

local reply = {'!' .. time[1] .. ' ' .. time[2] .. ' '}
for i = 1, n do
  local text
  if found and not rare[i] and not (rest and i > rest) then
    text = 'p' .. found[i]
    for k = n + i, shown * n, n do text = text .. found[k] end
    @parts text = text .. ' '
  else
    local checks = counted and tonumber(ARGV[i + 1] or 1) or 1
    if max_wait >= 0 then
      text = 'f' .. reserve(i, checks)
    else
      record(i, checks)
      if not refusal then text = 'f' .. struct.pack('<@numbers', unpack(into, 1, @width)) end
    end
    if refusal then return refusal end
  end
  reply[i + 1] = text
end
return table.concat(reply)
