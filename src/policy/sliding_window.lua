-- The sliding_window kernel (sliding_window.hpp).
--
-- Key       three little-endian doubles, the window's start, its count and the previous window's count. The start, not the
--           number: read with another window's length, a number could lie years ahead.
-- Constants window, limit, digit base, largest count, count refused (0 or 1), cost
-- State     the window's start and the two counts

local window, limit = tonumber(ARGV[first_arg]), tonumber(ARGV[first_arg + 1])
local base, most = tonumber(ARGV[first_arg + 2]), tonumber(ARGV[first_arg + 3])
local count_refused, cost = ARGV[first_arg + 4] == '1', tonumber(ARGV[first_arg + 5])

local function check(key, checks, write, into, at)
  local index, current, previous = 0, 0, 0
  local stored = pcall('GET', key)
  if stored then
    if refused(stored) then return 0 end
    index = -1
    if type(stored) == 'string' and #stored == 24 then
      local start, a, b = struct.unpack('<ddd', stored)
      if whole(start) and whole(a) and whole(b) then
        -- A longer window may bear smaller counts only.
        index, current, previous = floor(start / window), math.min(a, most), math.min(b, most)
      end
    end
  end
  into[at] = index < 0 and -1 or index * window
  into[at + 1], into[at + 2] = current, previous
  if index < 0 then return 0 end

  -- A clock behind the state is read as the state's own time; behind by more than a window, it takes the counts along.
  local time = clock
  local moved = index * window - clock > window
  if moved then
    -- At full weight: when in its window they came, nobody knows.
    index, current, previous = floor(clock / window), math.min(current + previous, most, limit), 0
  elseif index * window > time then
    time = index * window
  end
  local number = floor(time / window)
  local fresh = number ~= index or not stored
  if number ~= index then
    previous = number == index + 1 and current or 0
    index, current = number, 0
  end

  -- previous * left / window, rounded up, in two digits: the product itself may pass 2^53.
  local left = window - (time - index * window)
  local high = floor(previous / base)
  local full = floor(high * left / window)
  local rest = (high * left - full * window) * base + (previous - high * base) * left
  local weight = full * base + ceil(rest / window)

  local admitted = floor((limit - weight - current) / cost)
  if admitted < 0 then admitted = 0 end
  -- Two saturated counters come to more than 2^53 - 1, which stands for no limit.
  if limit == 9007199254740991 or admitted > checks then admitted = checks end
  if not write then return admitted end

  local counted = count_refused and checks or admitted
  if counted > 0 or moved then
    current = current + counted * cost
    if current > most then current = most end
    if fresh or moved then
      local ttl = ceil(((index + 2) * window - clock) / 1000)
      call('SET', key, struct.pack('<ddd', index * window, current, previous), 'PX', format('%d', ttl))
    else
      call('SETRANGE', key, 8, struct.pack('<d', current))
      call('PEXPIRE', key, format('%d', ceil(((index + 2) * window - clock) / 1000)))
    end
  elseif call('PTTL', key) == -1 then
    call('PEXPIRE', key, format('%d', ceil(((index + 2) * window - clock) / 1000)))
  end
  return admitted
end
