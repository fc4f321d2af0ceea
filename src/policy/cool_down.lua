-- The cool_down kernel (cool_down.hpp).
--
-- Key       the time in microseconds before which nothing passes, and the length of the cool-down
--           that ends then, with 16 digits each; the first digit of the length is 1 for a guess
-- Constants the cool-down to impose (0 to look only); 0, or the longest guess
-- State     those two numbers
--
-- A check that only looks has a plain state unless the cool-down began while the clock was ahead.
-- The key's 32 digits, or zeros, are the answer.

@constants
duration_, longest_guess_,
@common_constants
@others
local duration, longest_guess = 0, 0
@look
if not stored then
  -- Else the reply does not have it.
  if @nth <= shown then found[@key] = '00000000000000000000000000000000' end
  room = exact
elseif #stored == 32 and find(stored, '^%d+$') then
  local upto, length = string.sub(stored, 1, 16) + 0, string.sub(stored, 18) + 0
  -- Else it began while the clock was ahead (cool_down::state::has_effect), and is to be forgotten.
  if upto >= 1 and upto <= exact and length <= exact and upto - clock <= 2 * length + 60000000 then
    if upto <= clock then
      room = exact
    else
      -- One without a TTL is to be given one.
      if pcall('PTTL', keys[@key]) ~= -1 then room = 0 end
    end
  end
end
@full
local guess_mark, max = 1000000000000000, math.max

local function check(key, checks, write, into, at)
  local upto, length, marked = 0, 0, 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    if type(stored) == 'string' and #stored == 32 and string.find(stored, '^%d+$') then
      upto = tonumber(string.sub(stored, 1, 16))
      marked = tonumber(string.sub(stored, 17))
    end
    if upto == 0 or not whole(upto) or not whole(marked) then upto, marked = foreign, 0 end
  end
  into[at], into[at + 1] = upto, marked
  if upto == foreign then return 0 end
  length = marked % guess_mark

  -- It began while the clock was ahead (cool_down::state::has_effect).
  if upto - clock > 2 * length + 60000000 then
    upto = clock
    if write and duration == 0 and checks > 0 then call('DEL', key) end
    marked = 0
  end
  if write and longest_guess > 0 and upto <= clock then
    if duration == 0 then
      call('DEL', key)
      return checks
    end
    local still_refuses = marked >= guess_mark and clock <= upto + length
    length = still_refuses and max(2 * length, duration) or duration
    if length > longest_guess then length = longest_guess end
    call('SET', key, format('%016d%016d', clock + length, length + guess_mark), 'PX',
      ttl_of(clock + 2 * length))
    return checks
  end
  if not write or duration == 0 then
    if upto <= now then return checks end
    if write and call('PTTL', key) == -1 then
      call('PEXPIRE', key, ttl_of(upto))
    end
    return 0, upto
  end
  local begin = upto - length
  local ends = (begin > clock and begin or clock) + duration
  if ends > upto and longest_guess == 0 then
    call('SET', key, format('%016d%016d', ends, duration), 'PX', ttl_of(ends))
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, ttl_of(upto))
  end
  return checks
end
