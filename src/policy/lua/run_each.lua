-- The driver of checks with several keys, and of reservations, without a common path
-- (docs/design.md says which have none). It follows full_kernels().
--
-- KEYS   one per check for the first tier, in the same order one for the second, and so on
-- ARGV   what full_kernels() takes. Then for each check the number of equal ones (1 if left out, or
--        look_only)
-- Reply  now; then for each check the numbers of run()

local first_count, run = full_kernels(ARGV)
local reply, at, failed = {clock}, 2
for i = 1, #KEYS / tonumber(ARGV[1]) do
  at, failed = run(i, tonumber(ARGV[first_count + i - 1] or 1), reply, at)
  if failed then return failed end
end
return reply
