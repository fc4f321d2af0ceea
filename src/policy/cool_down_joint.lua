-- The cool_down's part of the common path of several keys (lua/record_all.lua): checks that only
-- look.

@look
if not stored then
  found[i], room = string.rep('0', 32), exact
elseif #stored == 32 and find(stored, '^%d+$') then
  local upto, length = tonumber(string.sub(stored, 1, 16)), tonumber(string.sub(stored, 17))
  -- Else it began while the clock was ahead (cool_down::state::has_effect), and is to be forgotten.
  if upto >= 1 and upto <= exact and length <= exact and upto - clock <= 2 * length + 60000000 then
    -- One without a TTL is to be given one.
    if upto <= clock then room = exact elseif pcall('PTTL', keys[i]) ~= -1 then room = 0 end
  end
end
@write
@constants
own = {'0'}
