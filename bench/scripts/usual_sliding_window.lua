-- Two counters, the older one weighted, as Cloudflare described it and Upstash's limiter has it:
-- KEYS are the current window's counter and the one before.
local limit, window, cost = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)
local current = tonumber(redis.call('GET', KEYS[1]) or 0)
local previous = tonumber(redis.call('GET', KEYS[2]) or 0)
previous = math.floor((1 - now % window / window) * previous)
if previous + current + cost > limit then return {0, 0} end
current = redis.call('INCRBY', KEYS[1], ARGV[3])
if current == cost then redis.call('PEXPIRE', KEYS[1], window * 2 + 1000) end
return {1, limit - current - previous}
