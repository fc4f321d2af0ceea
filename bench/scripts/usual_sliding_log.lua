-- The sorted set of the articles: what has left is removed, the rest is counted, and an admitted
-- request is added under a member of its own (ARGV[4]).
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - window)
local count = redis.call('ZCARD', KEYS[1])
if count + cost > limit then return {0, 0} end
redis.call('ZADD', KEYS[1], now, now .. '-' .. ARGV[4])
redis.call('PEXPIRE', KEYS[1], window)
return {1, limit - count - cost}
