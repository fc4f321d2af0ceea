-- One GCRA check written with care: one number in a string, one reply. ARGV are the time of one
-- unit and of the burst, in microseconds. Replies 0, or how long to wait.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local tat = tonumber(redis.call('GET', KEYS[1]) or 0)
if tat < now then tat = now end
tat = tat + ARGV[1]
local over = tat - now - ARGV[2]
if over > 0 then return over end
redis.call('SET', KEYS[1], string.format('%.0f', tat), 'PX', math.ceil((tat - now) / 1000))
return 0
