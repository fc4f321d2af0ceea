-- The sliding_log kernel (sliding_log.hpp). Its full kernel is sliding_log_full.lua.
--
-- Key       a list of entries, each two little-endian doubles: a time and the running total up to
--           it, modulo 2^52. Element 0 is the newest entry that has left the window: its total is
--           the base of all sums. The common path makes five of it: 0, the base, the two of element
--           1 (but if there is no other, the total may be outdated), and until when the key stays
--           at least. This kernel writes none of these, and undoes them when it changes the log.
--           With reservations ahead it is four: when the log was written, the base, the last turn,
--           and a time before which that never goes back.
-- Constants window, limit, resolution, count refused (0 or 1), cost. With count refused, at most
--           one check at a time
-- State     the sum before the checks, the newest entry's time, the sum after them, the time at
--           which there is room for the first refused one (0 if none was, or there is), and, with
--           reservations ahead, when the log was written and the last turn (0 if not)
--
-- A plain state is a log without reservations ahead, under a policy that has a limit and does not
-- count what it refuses. The answer is three little-endian doubles: the sum before the checks, the
-- newest entry's time, and the time of the entry that has to leave for the first refused check to
-- pass (0 if none was refused, or there is none).
--
-- The common path's names for a key: `left_` is how many entries have left the window (-1: all).
-- `base_`, `oldest_` and `oldest_total_` are the base and the oldest entry that has not left.
-- `kept_` is until when the key stays (-1: the head does not say). `usual_` tells the usual case: a
-- single check, at most one entry has left, the TTL lasts, and a refused check passes when the
-- oldest entry leaves.

@reads_key
@constants
window_, limit_, resolution_, count_refused_, cost_,
@common_constants
window_, limit_, resolution_, cost_,
@others
local count_refused = 0
@rule
room = (limit_ - sum_) / cost_
@start
local left_at_ = clock - window_
local stamp_ = resolution_ == 0 and clock or clock - clock % resolution_ + resolution_
local ends_ = stamp_ + window_
@look
local head_, left_, usual_ = pcall('LINDEX', keys[@key], '0'), 0
local base_, oldest_, oldest_total_, newest_, total_, kept_
do
  local key, tail, first = keys[@key]
  if head_ and (#head_ == 40 or #head_ == 16) then tail = call('LINDEX', key, '-1') end
  if tail and #tail == 16 then
    newest_, total_ = read('<dd', tail)
    if #head_ == 40 then
      base_, oldest_, oldest_total_, kept_ = read('<dddd', head_, 9)
      if oldest_ <= left_at_ and newest_ > left_at_ and base_ % 1 == 0 then
        first = call('LINDEX', key, '2')
        if first and #first == 16 then
          left_, base_ = 1, oldest_total_
          oldest_, oldest_total_ = read('<dd', first)
        end
      end
      -- The usual case.
      if oldest_ > left_at_ and newest_ > oldest_ and newest_ < stamp_ and kept_ >= ends_ and
         checks == 1 and oldest_ % 1 == 0 and newest_ % 1 == 0 and base_ % 1 == 0 then
        local sum = (total_ - base_) % 4503599627370496
        local need = sum + cost_ - limit_
        if need <= 0 and sum % 1 == 0 then
          room, usual_ = 1, true
          found[@key] = pack('<ddd', sum, newest_, 0)
        elseif (oldest_total_ - base_) % 4503599627370496 >= need and sum % 1 == 0 then
          room, usual_ = 0, true
          found[@key] = pack('<ddd', sum, newest_, oldest_)
        end
      end
    else
      first, base_ = read('<dd', head_)
      first, kept_, oldest_ = call('LINDEX', key, '1'), -1, -1
      if first and #first == 16 then oldest_, oldest_total_ = read('<dd', first) end
    end
  end
  if not usual_ then
    local sum_, plain = 0
    if not head_ then
      newest_, kept_, plain = 0, 0, true
    elseif newest_ then
      -- Another program's bytes are read as numbers, too, but they are hardly ever whole ones in
      -- the range of times.
      plain = newest_ >= oldest_ and newest_ <= stamp_ and oldest_ >= 0 and newest_ % 1 == 0 and
              oldest_ % 1 == 0 and base_ >= 0 and base_ % 1 == 0 and total_ >= 0 and
              total_ % 1 == 0 and base_ + total_ <= exact
      if plain and oldest_ <= left_at_ then
        if newest_ <= left_at_ then
          -- All have left.
          left_, base_, total_ = -1, 0, 0
        else
          -- More than four that leave together are left to the full kernel.
          repeat
            left_, base_ = left_ + 1, oldest_total_
            first = left_ < 5 and call('LINDEX', key, left_ == 1 and '2' or left_ + 1)
            plain = first and #first == 16
            if plain then
              oldest_, oldest_total_ = read('<dd', first)
              plain = newest_ >= oldest_ and oldest_ % 1 == 0 and base_ >= 0 and base_ % 1 == 0
            end
          until not plain or oldest_ > left_at_
        end
      end
      sum_ = (total_ - base_) % 4503599627370496
    end
    if plain then
      local passes = 0
      @insert rule
      if room < checks or checks == 0 then
        local fit = checks > 0 and room >= 1 and room - room % 1 or 0
        local need = sum_ + fit * cost_ + cost_ - limit_
        if need > sum_ then
          passes = stamp_
        elseif need > 0 then
          -- A single entry's total is the newest one's.
          local reached = oldest_ == newest_ and total_ or oldest_total_
          reached = (reached - base_) % 4503599627370496
          passes = oldest_
          if reached < need then
            -- More than the oldest has to leave. The first guess is that all entries weigh the
            -- same; then the search halves what is left.
            local low, high, probes = left_ + 1, call('LLEN', key) - 1, 0
            local at = low + math.ceil((need - reached) / reached)
            passes = newest_
            while plain and high - low > 1 do
              if not (at < high) then at = high - 1 elseif at <= low then at = low + 1 end
              local text, time, upto = call('LINDEX', key, string.format('%d', at))
              plain = #text == 16
              if plain then
                time, upto = read('<dd', text)
                plain = time >= oldest_ and time <= newest_ and time % 1 == 0
              end
              probes = probes + 1
              if plain and (upto - base_) % 4503599627370496 < need then
                low, at = at, at + 1
              else
                high, at, passes = at, at - 1, time
              end
              if probes > 1 then at = math.floor((low + high) / 2) end
            end
            if not plain then room = nil end
          end
        end
      end
      if room then found[@key] = pack('<ddd', sum_, newest_, passes) end
    end
  end
end
@write
if usual_ then
  if left_ == 1 then
    call('LPOP', key)
    call('LSET', key, '0', pack('<ddddd', 0, base_, oldest_, oldest_total_, kept_))
  end
  call('RPUSH', key, pack('<dd', stamp_, (total_ + cost_) % 4503599627370496))
else
  local changed = left_ ~= 0 or kept_ < 0
  if kept_ < 0 then kept_ = clock + (call('PTTL', key) - 1) * 1000 - grace end
  if not (kept_ >= ends_) then
    line = ends_ - ends_ % grid + grid
    kept_, changed = line, true
  end
  if not head_ then
    total_ = pass * cost_
    call('RPUSH', key, pack('<ddddd', 0, 0, stamp_, total_, kept_), pack('<dd', stamp_, total_))
  else
    if left_ < 0 then
      if oldest_ ~= newest_ then call('LTRIM', key, '0', '1') end
      newest_, oldest_ = stamp_, stamp_
    elseif left_ == 1 then
      call('LPOP', key)
    elseif left_ > 1 then
      call('LTRIM', key, left_, '-1')
    end
    if newest_ == oldest_ and oldest_total_ ~= total_ then
      changed, oldest_total_ = true, total_
    end
    total_ = (total_ + pass * cost_) % 4503599627370496
    if newest_ == stamp_ then
      call('LSET', key, '-1', pack('<dd', stamp_, total_))
    else
      call('RPUSH', key, pack('<dd', stamp_, total_))
    end
    if changed then
      call('LSET', key, '0', pack('<ddddd', 0, base_, oldest_, oldest_total_, kept_))
    end
  end
end
