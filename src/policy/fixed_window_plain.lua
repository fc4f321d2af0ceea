-- The fixed_window's part of the common path, of one key (lua/record_one.lua) and of several
-- (lua/record_all.lua): keys that hold a window which was not opened ahead, or nothing, under a
-- policy that has a limit and does not count what it refuses. It answers with the 24 bytes that a
-- key held, or zeros.

@constants
cost_, window_, limit_, offset_,
@start
local earliest_ = clock < window_ and -1 or clock - window_
@state
local text_ = stored
if not stored then
  text_ = '\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0'
  found[@key] = text_
elseif #stored ~= 24 then
  text_ = '------------------------'  -- no whole numbers
end
local start_, count_, kept_ = read('<ddd', text_)
@usual
-- The window is open, and its TTL lasts. Beyond 2^53, all numbers are whole.
not counted and start_ > earliest_ and start_ <= clock and
  kept_ >= start_ + window_ and count_ >= 1 and count_ <= limit_ and start_ % 1 == 0 and
  count_ % 1 == 0 and kept_ % grid == 0 and kept_ <= exact
@quick
count_ = count_ + cost_
if count_ <= limit_ then
  local length = pcall('SETRANGE', keys[@key], '8', pack('<d', count_))
  if length ~= 24 then return length end
end
@look
if start_ >= 0 and start_ <= clock + window_ and start_ % 1 == 0 and
   count_ >= 0 and count_ <= exact and count_ % 1 == 0 and
   kept_ >= start_ and kept_ <= exact and kept_ % grid == 0 then
  if start_ <= clock - window_ or count_ == 0 then
    count_ = 0
    if clock > start_ then start_ = clock end
    if offset_ >= 0 then start_ = start_ - (start_ - offset_) % window_ end
  end
  room = (limit_ - count_) / cost_
end
@write
count_ = count_ + pass * cost_
local ends, text = start_ + window_
if kept_ < ends then
  line = ends - ends % grid + grid
  text = pack('<ddd', start_, count_, line)
else
  text = pack('<dd', start_, count_)
end
local length = pcall('SETRANGE', key, '0', text)
if length ~= 24 then failed = length end
@full
arguments = {window_, limit_, offset_, '0', cost_}
