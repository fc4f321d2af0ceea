-- The cool_down kernel (cool_down.hpp).
--
-- Key       the time in microseconds before which nothing passes, and the length of the cool-down
--           that ends then, with 16 digits each
-- Constants the cool-down to impose (0 to look only)
-- State     those two numbers

local duration = tonumber(ARGV[first_arg])

local function check(key, checks, write, into, at)
  local upto, length = 0, 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    if type(stored) == 'string' and #stored == 32 and string.find(stored, '^%d+$') then
      upto = tonumber(string.sub(stored, 1, 16))
      length = tonumber(string.sub(stored, 17))
    end
    if upto == 0 or not whole(upto) or not whole(length) then upto, length = foreign, 0 end
  end
  into[at], into[at + 1] = upto, length
  if upto == foreign then return 0 end

  -- It began while the clock was ahead (cool_down::state::has_effect).
  if upto - clock > 2 * length + 60000000 then
    upto = clock
    if write and duration == 0 and checks > 0 then call('DEL', key) end
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
  if ends > upto then
    call('SET', key, format('%016d%016d', ends, duration), 'PX', ttl_of(ends))
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, ttl_of(upto))
  end
  return checks
end
