-- Follows the table of kernels.

-- The kernel with the number at that place in ARGV, and whether a request that passes has to wait
-- until the bucket is empty: then the number is negative (policies::kernel_number).
local function kernel_at(place)
  local number = tonumber(ARGV[place])
  local spaced = number < 0
  return kernels[spaced and -number or number], spaced
end
