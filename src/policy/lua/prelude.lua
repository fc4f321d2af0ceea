-- Comes before the full kernels, in check.lua and settle.lua, which describe KEYS and ARGV. Each
-- kernel's file describes its constants: they are local names in front of the kernel.
--
-- A kernel answers equal checks of one key:
--
--   check(key, checks, write, into, at)   returns how many of the checks pass, and if none does,
--                                         the time from which the first would
--
-- The checks come at `now`: the server's time, or a later one when the script looks for a
-- reservation. `clock` is always the server's time. With `write` the kernel makes the transition,
-- else it only looks. It puts the state that it found into `into`, from `at` on, as whole numbers;
-- the first is `foreign` if the key holds something else; the driver then calls unreadable(). A
-- write with 0 checks repairs a state that lies far ahead of the clock, or a key without a TTL.
--
-- Whole numbers are formatted before redis.call gets them: it would write them as fractions, and
-- takes twice as long. %d is exact up to 2^53 where a C long has 64 bits, and costs a tenth of a
-- check less than %.0f.

local call, pcall = redis.call, redis.pcall
local floor, ceil, format = math.floor, math.ceil, string.format
local now = clock

-- The server's error for a command, except that the key holds another type: not allowed, no memory,
-- a replica. The drivers answer with it.
local refusal
local function refused(answer)
  if type(answer) ~= 'table' or not answer.err then return false end
  if string.find(answer.err, 'WRONGTYPE', 1, true) then return false end
  refusal = answer
  return true
end

-- ttl_of: how long a key stays whose state ends then, in milliseconds (a state without a TTL may
-- have ended long ago). line_after: the grid's next line (start.lua). ttl_on_grid: how long a
-- bucket's key stays.
local function ttl_of(ends)
  local left = ceil((ends + grace - clock) / 1000)
  return format('%d', left > 1 and left or 1)
end
local function line_after(ends) return ends - ends % grid + grid end
local function ttl_on_grid(ends) return ttl_of(line_after(ends)) end

-- Until which line a key stays, by its TTL: for states that do not say it. One second is more than
-- TTLs are rounded by.
local function line_of_ttl(key)
  local left = call('PTTL', key)
  local line = clock + left * 1000 - grace + 1000000
  return left > 0 and line > 0 and line - line % grid or 0
end

-- policy/script_arguments.hpp has the same.
local foreign, newer = -1, -2
local no_limit = 9007199254740991
local look_only = 0

-- What the driver replies in place of `foreign`: `newer` if the key's string, first element or
-- first member shows that a later version wrote it (docs/formats.md).
local function unreadable(key)
  local text = pcall('GET', key)
  if type(text) == 'table' then text = pcall('LINDEX', key, '0') end
  if type(text) == 'table' then text = pcall('ZRANGE', key, '0', '0')[1] end
  local is_newer = type(text) == 'string' and string.sub(text, 1, 5) == 'weir/'
  return is_newer and newer or foreign
end

-- True if x can be a time or a count: foreign bytes read as a double must not get into the
-- arithmetic.
local function whole(x)
  return x >= 0 and x <= no_limit and x % 1 == 0
end
