-- The lease_set kernel (lease_set.hpp).
--
-- Key       a sorted set: each lease's name (base:number:length) at the time in microseconds at
--           which it lapses
-- Constants the limit, the lease's length, the act (lease_set::act), and the base and number of its
--           name
-- State     how many are in, when there is room (0: there is), when the last lapses, when the
--           asker's own does (0: not in)

@constants
limit_, length_, act_, base_text_, number_,
@full
local enters, leaves = 0, 2  -- as lease_set::act
local name = base_text .. ':' .. format('%d:%d', number, length)

local function length_in(name)
  return tonumber(string.match(name, ':(%d+)$')) or 0
end

-- When the lease at that place lapses, and its name: 0 if there is none, `foreign` if the key holds
-- something else.
local function lapse(key, place)
  local found = pcall('ZRANGE', key, place, place, 'WITHSCORES')
  if found.err then
    refused(found)
    return foreign
  end
  if not found[1] then return 0 end
  local upto = tonumber(found[2])
  local ours = whole(upto) and upto > 0 and string.find(found[1], '^%d+:%d+:%d+$')
  if not ours then return foreign end
  return upto, found[1]
end

local function remove_lapsed(key)
  call('ZREMRANGEBYSCORE', key, '-inf', format('%d', clock))
end

local function check(key, checks, write, into, at)
  local first = lapse(key, '0')
  local last, name_of_last = first
  if first > 0 then last, name_of_last = lapse(key, '-1') end
  if refusal then return 0 end
  into[at], into[at + 1], into[at + 2], into[at + 3] = 0, 0, 0, 0
  if first == foreign or last == foreign then
    into[at] = foreign
    return 0
  end

  -- If all leases have lapsed, the new one is added before they are removed: while a slot moves,
  -- its node runs no command on a key that it does not have.
  local replaces = act == enters and first > 0 and last <= clock
  -- Also in the look before the first tier writes: the reply is of that look. A fetch changes
  -- nothing.
  if first > 0 and (write or checks ~= look_only) then
    if first <= clock and not replaces then remove_lapsed(key) end
    if last > clock + length and last > clock + length_in(name_of_last) then
      -- The clock was set back. If there are very many leases, each call moves only the last ones:
      -- earlier ones may rightly end so late, if a gate with a longer duration gave them.
      local far = call('ZRANGE', key, '+inf', format('(%d', clock + length), 'BYSCORE', 'REV',
                       'LIMIT', '0', '1000', 'WITHSCORES')
      for i = 1, #far, 2 do
        local most = clock + length_in(far[i])
        if tonumber(far[i + 1]) > most then call('ZADD', key, format('%d', most), far[i]) end
      end
      last = lapse(key, '-1')
    end
  end

  local inside, room, own = 0, 0, 0
  if last <= clock then
    last = 0
  else
    inside = call('ZCOUNT', key, format('(%d', clock), '+inf')
    -- Leases beyond the limit have to end first.
    if inside >= limit then room = lapse(key, format('%d', -limit)) end
    own = tonumber(call('ZSCORE', key, name) or 0)
    if own <= clock then own = 0 end
  end
  into[at], into[at + 1], into[at + 2], into[at + 3] = inside, room, last, own

  local pass = own > 0
  if act == enters then pass = inside < limit and own == 0 end
  if not write then return pass and checks or 0 end
  local upto = last
  if pass and checks > 0 then
    if act == leaves then
      call('ZREM', key, name)
      if inside == 1 then upto = 0 end  -- the key is gone
    else
      call('ZADD', key, format('%d', clock + length), name)
      if replaces then remove_lapsed(key) end
      if clock + length > upto then upto = clock + length end
    end
  end
  if upto > last or (upto > 0 and call('PTTL', key) == -1) then
    call('PEXPIRE', key, ttl_of(upto))
  end
  return pass and checks or 0
end
