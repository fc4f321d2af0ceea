-- The beginning of full_kernels(ARGV): the kernels of all tiers. run_all.lua or reserve.lua
-- follows.
--
-- KEYS     one per check for the first tier, in the same order one for the second, and so on
-- ARGV     the number of tiers; for each tier its kernel's number (see kernel_at) and its constants
-- Returns  where in ARGV the next argument is, and run(first, wanted, into, at): answers so many
--          equal checks, whose first key is KEYS[first]. It puts numbers into `into`, from `at` on,
--          and returns the index behind them, and perhaps an error

local tiers = tonumber(ARGV[1])
local n = #KEYS / tiers
local check, width, spaced, place, scratch = {}, {}, {}, 2, {}
for t = 1, tiers do
  local kernel
  kernel, spaced[t] = kernel_at(place)
  check[t], width[t] = kernel.make(place + 1), kernel.width
  place = place + 1 + kernel.constants
end
local function key_of(first, t) return KEYS[first + (t - 1) * n] end
