-- What the keys hold. A common path has this in place of "@read": `keys` are KEYS, and `n` is their
-- number.

if n == 1 then
  found = ARGV
  found[1] = pcall('GET', keys[1])
else
  found = pcall('MGET', unpack(keys))
  if found.err then return found end
end
