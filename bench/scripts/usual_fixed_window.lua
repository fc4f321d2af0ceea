-- A count, a TTL when the window opens, and the time that is left, as express-rate-limit's store
-- and others have it.
local count = redis.call('INCRBY', KEYS[1], ARGV[3])
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  left = tonumber(ARGV[2])
end
return {count <= tonumber(ARGV[1]) and 1 or 0, count, left}
