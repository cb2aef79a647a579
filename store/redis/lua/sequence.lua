-- Reserves sequence numbers and returns the last one. A number is at least the server's time in microseconds, so that the numbers
-- increase even if Redis has lost the newest ones, for example in a failover.
-- ARGV: how many numbers.
local n, time = tonumber(arg()), call('TIME')
local last = math.max(tonumber(call('GET', P .. 'seq') or '0') + n, time[1] * 1000000 + time[2])
call('SET', P .. 'seq', string.format('%.0f', last))
return last
