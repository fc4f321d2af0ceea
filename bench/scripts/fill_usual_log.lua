-- Writes sorted sets of ARGV[1] entries, spread over the last ARGV[2] microseconds, as
-- usual_sliding_log.lua keeps them.
local entries, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for k = 1, #KEYS do
  redis.call('DEL', KEYS[k])
  local some = {}
  for i = 1, entries do
    local at = string.format('%.0f', (now - span + span * i / (entries + 1)) / 1000)
    some[#some + 1] = at
    some[#some + 1] = at .. '-' .. string.format('%012d', i)
    if #some == 1000 or i == entries then
      redis.call('ZADD', KEYS[k], unpack(some))
      some = {}
    end
  end
  redis.call('PEXPIRE', KEYS[k], '86400000')
end
return 0
