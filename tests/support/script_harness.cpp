#include "support/script_harness.hpp"

#include "policy/arithmetic.hpp"

namespace weir::test {
namespace {

constexpr std::string_view prelude = R"lua(
local real = redis
local function keep_ttl(key, ttl)
  ttl = tonumber(ttl)
  if not (ttl >= 1 and ttl % 1 == 0) then error('a TTL of ' .. tostring(ttl) .. ' ms') end
  local time = real.call('HMGET', 'test:clock', 's', 'us')
  local ends = time[1] * 1000000 + time[2] + ttl * 1000
  real.call('HSET', 'test:ttl', key, string.format('%.0f', ends))
end
local function intercept(run)
  return function(name, ...)
    if name == 'TIME' then
      return real.call('HMGET', 'test:clock', 's', 'us')
    elseif name == 'SET' then
      local key, value, px, ttl, more = ...
      if px == 'KEEPTTL' then return run(name, ...) end
      if px == 'NX' and ttl == 'PX' then
        keep_ttl(key, more)
        return run('SET', key, value, 'NX', 'PX', 1000000000)
      end
      if px ~= 'PX' or more then error('SET without PX alone') end
      keep_ttl(key, ttl)
      return run('SET', key, value, 'PX', 1000000000)
    elseif name == 'PEXPIRE' then
      local key, ttl = ...
      keep_ttl(key, ttl)
      return run('PEXPIRE', key, 1000000000)
    elseif name == 'PEXPIREAT' then
      local key, ends = ...
      local time = real.call('HMGET', 'test:clock', 's', 'us')
      keep_ttl(key, math.ceil(ends - time[1] * 1000 - time[2] / 1000))
      return run('PEXPIRE', key, 1000000000)
    elseif name == 'DEL' then
      real.call('HDEL', 'test:ttl', ...)
    elseif name == 'PTTL' then
      local key = ...
      local left = run('PTTL', key)
      if left < 0 then return left end
      local ends = real.call('HGET', 'test:ttl', key)
      if not ends then return left end
      local time = real.call('HMGET', 'test:clock', 's', 'us')
      return math.floor((ends - time[1] * 1000000 - time[2]) / 1000)
    end
    return run(name, ...)
  end
end
local ours = {call = intercept(real.call), pcall = intercept(real.pcall)}
local redis = setmetatable(ours, {__index = real})
)lua";

}  // namespace

script_harness::script_harness(redis_client& client, std::string_view script) : client_(client) {
  sha_ = client_.must("SCRIPT", "LOAD", std::string(prelude) + std::string(script)).text;
}

void script_harness::send_clock(std::int64_t now) {
  clock_ = now;
  client_.send("HSET", "test:clock", "s", now / 1'000'000, "us", now % 1'000'000);
}

void script_harness::send_run(std::span<const std::string> keys,
                              std::span<const std::int64_t> arguments,
                              std::span<const std::int64_t> counts) {
  auto writer = client_.writer();
  writer.begin(3 + keys.size() + arguments.size() + counts.size());
  writer.arg("EVALSHA").arg(sha_).arg(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) writer.arg(key);
  for (const std::int64_t value : arguments) writer.arg(value);
  for (const std::int64_t count : counts) writer.arg(count);
}

void script_harness::send_run(std::span<const std::string> keys,
                              std::span<const std::string> arguments,
                              std::span<const std::int64_t> counts) {
  auto writer = client_.writer();
  writer.begin(3 + keys.size() + arguments.size() + counts.size());
  writer.arg("EVALSHA").arg(sha_).arg(static_cast<std::int64_t>(keys.size()));
  for (const std::string& key : keys) writer.arg(key);
  for (const std::string& argument : arguments) writer.arg(argument);
  for (const std::int64_t count : counts) writer.arg(count);
}

void script_harness::send_requested_end(std::string_view key) {
  client_.send("HGET", "test:ttl", key);
}

void script_harness::set_clock(std::int64_t now) {
  send_clock(now);
  client_.read();
}

reply script_harness::run(std::span<const std::string> keys,
                          std::span<const std::int64_t> arguments,
                          std::span<const std::int64_t> counts) {
  send_run(keys, arguments, counts);
  return client_.read();
}

std::optional<std::int64_t> script_harness::requested_ttl(std::string_view key) {
  const reply r = client_.must("HGET", "test:ttl", key);
  if (r.is_null()) return std::nullopt;
  return policies::floor_div(std::stoll(r.text) - clock_, 1000);
}

void script_harness::forget_ttl(std::string_view key) { client_.must("HDEL", "test:ttl", key); }

}  // namespace weir::test
