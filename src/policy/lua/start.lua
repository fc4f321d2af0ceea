-- The beginning of every script: the clock, and how long keys stay.

-- Once per script: two readings may differ.
local redis = redis
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]

-- A key stays for the grace after its state has ended, because the clock may step back by that.
-- Each check moves the end of a state a little, so a TTL reaches to the next line of a grid, and
-- the grace: only a check that moves the end beyond the line renews it. The rule for every writer,
-- whatever its policy: a key whose state ends between two lines of the grid stays at least until
-- the second line, and the grace. The end of a window or a log depends on the policy, so a window's
-- key says until which line it stays, and so does the head of a log.
local grace, grid = 2000000, 16000000
