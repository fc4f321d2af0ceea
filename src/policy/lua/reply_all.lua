-- Behind record_all.lua: the reply of the script of several keys.
--
-- Reply  the clock's two numbers, each with a space behind it, and what each key held. If
--        full_kernels() has taken checks: now; then for each check what its keys held, or an array
--        of the states of its tiers

if not states then
  found[1] = time[1] .. ' ' .. time[2] .. ' ' .. found[1]
  return table.concat(found)
end
local reply = {clock}
for first = 1, keys_of_all, tiers do
  reply[#reply + 1] = states[first] or table.concat(found, '', first, first + tiers - 1)
end
return reply
