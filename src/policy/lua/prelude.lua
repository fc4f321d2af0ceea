-- Begins every script; one kernel or all of them, and a driver, follow. KEYS and ARGV are described
-- in the drivers, a kernel's constants in its own file: they are read from ARGV[first_arg] on.
--
-- A kernel answers equal checks of one key:
--
--   check(key, checks, write, into, at)   how many of the checks pass, and if none, from
--                                         when on the first would
--
-- They come at `now`: the server's time, or a later one when a turn is booked. `clock` is the
-- server's time in any case. With `write` it makes the transition, else it looks only. The state
-- found goes into `into`, from `at` on, as whole numbers; the first is -1 if the key holds
-- something else. Writing after 0 checks mends what needs it: a state far ahead of the clock, a key
-- without a TTL.
--
-- Whole numbers are formatted before redis.call gets them: it takes numbers for fractions, and
-- twice as long. %d is exact up to 2^53 where a C long has 64 bits, and a tenth of a check cheaper
-- than %.0f.

local call, pcall = redis.call, redis.pcall
local floor, ceil, format = math.floor, math.ceil, string.format
-- Once per script: two readings may differ.
local time = call('TIME')
local clock = time[1] * 1000000 + time[2]
local now = clock
local reply = {clock}

-- What the server said against a command, other than that the key holds something else: not
-- allowed, no memory, a replica. The drivers answer with it.
local refusal
local function refused(answer)
  if type(answer) ~= 'table' or not answer.err then return false end
  if string.find(answer.err, 'WRONGTYPE', 1, true) then return false end
  refusal = answer
  return true
end

-- For how long a key stays whose state ends then, in milliseconds. The clock may step back by the
-- grace, and finds it there.
local grace = 2000000
local function ttl_of(ends) return format('%d', ceil((ends + grace - clock) / 1000)) end

-- Whether x may be a time or a count of ours: eight stray bytes are a double too, and must not get
-- into the arithmetic.
local function whole(x)
  return x >= 0 and x <= 9007199254740991 and x % 1 == 0
end
