-- Like read_keys.lua, for checks that a cool-down may refuse: behind their own keys in KEYS come
-- those of the cool-downs, in the same order. Where a cool-down is there, `found` gets an empty
-- text, which no state is: so the common path leaves that check to run_left.lua. What the check's
-- two keys hold is then at found[n + i] and found[2 * n + i].

n = n / 2
found = pcall('MGET', unpack(keys, 1, n))
if found.err then return found end
local there = pcall('EXISTS', unpack(keys, n + 1))
if there ~= 0 then
  if not tonumber(there) then return there end
  local cool_downs, texts = pcall('MGET', unpack(keys, n + 1)), 0
  for i = 1, n do
    if cool_downs[i] then texts = texts + 1 end
  end
  for i = 1, n do
    -- MGET says of a key of another type that it holds nothing.
    if cool_downs[i] or texts < there then
      found[n + i], found[2 * n + i], found[i] = found[i], cool_downs[i], ''
    end
  end
end
