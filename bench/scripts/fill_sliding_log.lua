-- Writes logs of ARGV[1] entries, spread over the last ARGV[2] microseconds, in the form that
-- src/policy/sliding_log.lua describes. The harness then looks whether the library reads them so.
local entries, span = tonumber(ARGV[1]), tonumber(ARGV[2])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
for k = 1, #KEYS do
  redis.call('DEL', KEYS[k])
  local some = {struct.pack('<dd', 0, 0)}
  for i = 1, entries do
    local at = now - span + math.floor(span * i / (entries + 1))
    some[#some + 1] = struct.pack('<dd', at, i)
    if #some == 1000 or i == entries then
      redis.call('RPUSH', KEYS[k], unpack(some))
      some = {}
    end
  end
  redis.call('PEXPIRE', KEYS[k], '86400000')
end
return 0
