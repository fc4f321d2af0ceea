-- The fixed_window's part of the common path of several keys (lua/record_all.lua): keys that hold a
-- window which was not opened ahead, under a policy that has a limit and does not count what it
-- refuses.
--
-- Constants cost, window, limit, offset

@look
local window, offset = constant[p + 2], constant[p + 4]
local start, count, kept = 0, 0, 0
if not stored then
  found[i] = string.rep('\0', 24)
elseif #stored == 24 then
  start, count, kept = read('<ddd', stored)
else
  start = -1
end
if start >= 0 and start <= clock + window and start % 1 == 0 and
   count >= 0 and count <= exact and count % 1 == 0 and
   kept >= start and kept <= exact and kept % grid == 0 then
  if start <= clock - window or count == 0 then
    count = 0
    if clock > start then start = clock end
    if offset >= 0 then start = start - (start - offset) % window end
  end
  room = (constant[p + 3] - count) / constant[p + 1]
  room = room - room % 1
  seen[p + 1], seen[p + 2], seen[p + 3] = start, count, kept
end
@write
local start, count = seen[p + 1], seen[p + 2] + n * constant[p + 1]
local ends, text = start + constant[p + 2]
if seen[p + 3] < ends then
  line = ends - ends % grid + grid
  text = pack('<ddd', start, count, line)
else
  text = pack('<dd', start, count)
end
local length = pcall('SETRANGE', key, '0', text)
if length ~= 24 then failed = length end
@constants
own = {constant[p + 2], constant[p + 3], constant[p + 4], '0', constant[p + 1]}
