-- The cool_down's part of the common path of several keys (lua/record_all.lua): checks that only
-- look.

@constants
@start
@look
if not stored then
  -- Else the reply does not have it.
  if @nth <= shown then found[@key] = '00000000000000000000000000000000' end
  room = exact
elseif #stored == 32 and find(stored, '^%d+$') then
  local upto, length = string.sub(stored, 1, 16) + 0, string.sub(stored, 17) + 0
  -- Else it began while the clock was ahead (cool_down::state::has_effect), and is to be forgotten.
  if upto >= 1 and upto <= exact and length <= exact and upto - clock <= 2 * length + 60000000 then
    if upto <= clock then
      room = exact
    else
      -- One without a TTL is to be given one.
      if pcall('PTTL', keys[@key]) ~= -1 then room = 0 end
    end
  end
end
@write
@full
arguments = {'0'}
