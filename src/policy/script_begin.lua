-- Begins every script; a kernel or all of them, and a driver, follow. KEYS and ARGV are described in the drivers, a kernel's
-- constants in its own file.
--
-- A kernel is a function of the place of its constants in ARGV. What it returns answers equal checks of one key:
--
--   check(key, checks, write, into, at)   how many of the checks pass
--
-- With `write` it makes the transition, else it looks only. The state found goes into `into`, from `at` on, as whole numbers;
-- the first is -1 if the key holds something else. Writing after 0 checks mends what needs it: a state far ahead of the
-- clock, a key without a TTL.

local call, pcall = redis.call, redis.pcall
-- Once per script: two readings may differ.
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local reply = {now}

-- Whether x may be a time or a count of ours: eight stray bytes are a double too, and must not get into the arithmetic.
local function whole(x)
  return x >= 0 and x <= 9007199254740991 and x % 1 == 0
end

-- Expires the key when the clock says `instant`. Numbers are formatted here: redis.call would take twice as long.
local function expire(key, instant)
  call('PEXPIRE', key, string.format('%d', math.ceil((instant - now) / 1000)))
end

local function set(key, value, instant)
  call('SET', key, value, 'PX', string.format('%d', math.ceil((instant - now) / 1000)))
end
