-- A token bucket in a hash and a count for each window, of one subject: both let a request pass, or
-- neither counts it. As one puts the two usual scripts together.
local capacity, rate, requested = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local limit, window = tonumber(ARGV[4]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local data = redis.call('HMGET', KEYS[1], 'tokens', 'timestamp')
local tokens = tonumber(data[1]) or capacity
local last = tonumber(data[2]) or now
tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
local count = tonumber(redis.call('GET', KEYS[2]) or 0)
local allowed = tokens >= requested and count + requested <= limit
if allowed then
  tokens = tokens - requested
  redis.call('HSET', KEYS[1], 'tokens', tokens, 'timestamp', now)
  redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate * 1000) * 2)
  count = redis.call('INCRBY', KEYS[2], requested)
  if count == requested then redis.call('PEXPIRE', KEYS[2], window) end
end
return {allowed and 1 or 0, math.floor(tokens), limit - count}
