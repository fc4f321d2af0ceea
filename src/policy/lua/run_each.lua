-- The driver of checks with several keys, and of reservations, without a common path
-- (docs/design.md says which have none). Behind full_kernels().
--
-- KEYS   one per check for the first tier, in the same order one for the second, and so on
-- ARGV   what full_kernels() takes. Then for each check the number of equal ones (1 if left out, or
--        look_only)
-- Reply  now; then for each check an array of what run() returned

local first_count, run = full_kernels(ARGV)
local reply = {clock}
for i = 1, #KEYS / tonumber(ARGV[1]) do
  local found, failed = run(i, tonumber(ARGV[first_count + i - 1] or 1))
  if failed then return failed end
  reply[i + 1] = found
end
return reply
