-- The meter kernel (meter.hpp): token_bucket, gcra and leaky_bucket, for one or more keys at one instant.
--
-- KEYS  one per subject: its TAT in microseconds, as "whole" or "whole/part"
-- ARGV  burst * T (whole, part), parts, cost * T (whole, part), then for each key the number of equal checks
--       (1 if left out, 0 to look only)
-- Reply now, then for each key its TAT before the checks (whole, part); whole is -1 if the key holds something else

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local burst, burst_part = tonumber(ARGV[1]), tonumber(ARGV[2])
local parts = tonumber(ARGV[3])
local step, step_part = tonumber(ARGV[4]), tonumber(ARGV[5])
local reply = {now}

for i = 1, #KEYS do
  local key, checks = KEYS[i], tonumber(ARGV[5 + i] or 1)
  local tat, part, plain = 0, 0, true
  local stored = redis.pcall('GET', key)
  if stored then
    tat = type(stored) == 'string' and tonumber(stored)
    if not tat then
      plain = false
      local a, b
      if type(stored) == 'string' then
        a, b = string.match(stored, '^(%d+)/(%d+)$')
      elseif not string.find(stored.err, 'WRONGTYPE', 1, true) then
        return stored  -- not allowed
      end
      tat, part = tonumber(a or -1), tonumber(b or 0)
      -- Written under another rate, with other parts: round up.
      if part >= parts then tat, part = tat + 1, 0 end
    end
    -- A number, but none of ours (not a whole one, an infinite one).
    if not (tat >= 0 and tat <= 9007199254740991 and tat % 1 == 0) then tat, part = -1, 0 end
  end
  reply[2 * i], reply[2 * i + 1] = tat, part

  if checks > 0 and tat >= 0 then
    -- A clock behind the state is read as the state's own time; far behind it, the bucket counts as full from now on.
    local at = tat - burst
    if part > burst_part then at = at + 1 end
    local moved = at - now > burst
    if moved then tat = tat - (at - now) end
    if moved or at < now then at = now end

    local fresh = tat < at
    local next, next_part = tat, part
    if fresh then next, next_part = at, 0 end
    local last = at + burst
    local admitted = 0
    if parts == 1 then
      admitted = math.floor((last - next) / step)
      if admitted > checks then admitted = checks end
      next = next + admitted * step
    else
      while admitted < checks do
        local n, p = next + step, next_part + step_part
        if p >= parts then n, p = n + 1, p - parts end
        if n > last or n == last and p > burst_part then break end
        next, next_part, admitted = n, p, admitted + 1
      end
    end

    if admitted > 0 or moved then
      local ttl = math.ceil((next + (next_part > 0 and 1 or 0) - now) / 1000)
      if next_part > 0 then
        redis.call('SET', key, string.format('%.0f/%.0f', next, next_part), 'PX', ttl)
      elseif fresh or moved or not plain then
        redis.call('SET', key, string.format('%.0f', next), 'PX', ttl)
      else
        local added = redis.pcall('INCRBY', key, next - tat)
        if type(added) ~= 'table' then
          redis.call('PEXPIRE', key, ttl)
        elseif string.find(added.err, 'not an integer', 1, true) then
          reply[2 * i] = -1  -- a number, but none of ours
        else
          return added  -- not allowed, no memory, a replica
        end
      end
    elseif redis.call('PTTL', key) == -1 then
      redis.call('PEXPIRE', key, math.ceil((tat + 1 - now) / 1000))
    end
  end
end
return reply
