-- The beginning of every script: the clock, and how long keys stay.

-- Once per script: two readings may differ.
local redis = redis
local time = redis.call('TIME')
local clock = time[1] * 1000000 + time[2]

-- A key stays for the grace after its state has ended: the clock may step back by that, and finds
-- it. A key whose state ends again and again a little later gets a TTL up to the next line of a
-- grid and the grace; no check renews that before the state's end crosses the line. So the rule for
-- every writer, whatever its policy: a key whose state ends between two lines of the grid stays
-- until the second one at least, and the grace. Where a window or a log ends depends on the policy:
-- a window's key says until which line it stays, and so does the head of a log.
local grace, grid = 2000000, 16000000
