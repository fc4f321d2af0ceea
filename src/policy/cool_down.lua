-- The cool_down kernel (cool_down.hpp).
--
-- Key       the time in microseconds before which nothing passes
-- Constants the longest cool-down there may be, and the cool-down to impose (0 to look only)
-- State     that time

local longest, pause = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])

local function check(key, checks, write, into, at)
  local upto = 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    local ours = type(stored) == 'string' and string.find(stored, '^[1-9]%d*$')
    upto = ours and tonumber(stored) or foreign
    if not whole(upto) then upto = foreign end
  end
  into[at] = upto
  if upto == foreign then return 0 end

  -- So far ahead, it was not written by this clock.
  if upto - clock > longest then upto = clock end
  if not write or pause == 0 then
    if upto <= now then return checks end
    if write and call('PTTL', key) == -1 then call('PEXPIRE', key, ttl_of(upto)) end
    return 0, upto
  end
  if clock + pause > upto then
    call('SET', key, format('%d', clock + pause), 'PX', ttl_of(clock + pause))
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, ttl_of(upto))
  end
  return checks
end
