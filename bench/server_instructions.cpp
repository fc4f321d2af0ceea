// Counts the instructions that a redis-server spends on one check: it sends scripts to a server
// that runs under callgrind, and has the count of each row dumped. bench/server_instructions.sh
// builds it, starts the server, and prints the table.
//
//   server_instructions SOCKET PID DIRECTORY [quick]
//
// are the server's socket, its process, and where callgrind writes to; with `quick`, only busy keys
// and refused checks are measured. For each row it prints the policy, what the keys are, how many
// keys a script call has, and the instructions per check. Lines that begin with "hold" have, in
// place of the last, those of the largest call that a store sends.

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "policy/kernel.hpp"
#include "redis/script/scripts.hpp"
#include "support/counted_server.hpp"
#include "support/script_calls.hpp"

namespace {

using namespace weir;
using namespace std::chrono_literals;

/// What most users run for a token bucket: its script, and the same for several keys.
constexpr std::string_view usual_script = R"(
local capacity, rate = tonumber(ARGV[1]), tonumber(ARGV[2])
local requested = tonumber(ARGV[3])
local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1000000
local reply = {}
for i = 1, #KEYS do
  local data = redis.call('HMGET', KEYS[i], 'tokens', 'timestamp')
  local tokens = tonumber(data[1]) or capacity
  local last = tonumber(data[2]) or now
  tokens = math.min(capacity, tokens + math.max(0, now - last) * rate)
  local allowed = tokens >= requested
  if allowed then tokens = tokens - requested end
  redis.call('HSET', KEYS[i], 'tokens', tokens, 'timestamp', now)
  redis.call('PEXPIRE', KEYS[i], math.ceil(capacity / rate * 1000) * 2)
  reply[#reply + 1] = allowed and 1 or 0
  reply[#reply + 1] = math.floor(tokens)
end
return reply
)";

class program {
 public:
  program(const std::string& socket, std::string pid, std::filesystem::path directory, bool quick)
      : server_(socket, std::move(pid), std::move(directory)), quick_(quick) {}

  void run() {
    // What the collector of garbage costs depends on how many scripts there are: as in a process
    // that uses all policies.
    for (std::size_t i = 0; i <= redis::bucket_in_parts; ++i) {
      if (i == redis::settlement) continue;
      server_.command("SCRIPT", "LOAD", redis::scripts()[i].text);
    }
    // Long enough that nothing ends meanwhile; `idle` has ended when it is used again.
    const auto meter = [](std::int64_t capacity, std::chrono::microseconds each) {
      return policies::compile(token_bucket{capacity, every(each)});
    };
    row("token_bucket", meter(10'000'000, 1ms), meter(1000, 1us), 1'000'000, 0, 10'000'000);
    const auto in_parts = [](std::int64_t capacity, std::chrono::microseconds each_seven) {
      return policies::compile(token_bucket{capacity, {7, each_seven}});
    };
    row("token_bucket,7_in_3s", in_parts(10'000'000, 3s), in_parts(1000, 3us), 1'000'000, 0,
        10'000'000);
    row("fixed_window", policies::compile(fixed_window{10'000, 1h}),
        policies::compile(fixed_window{10'000, 1ms}), 5000, 10'000, 1);
    row("sliding_window", policies::compile(sliding_window{10'000, 1h}),
        policies::compile(sliding_window{10'000, 1ms}), 5000, 10'000, 1);
    row("sliding_log", policies::compile(sliding_log{1000, 1h}),
        policies::compile(sliding_log{1000, 1ms}), 500, 1000, 1);
    joint_rows();
    holds();
    all_reservations();
    const std::string sha = server_.command("SCRIPT", "LOAD", usual_script);
    for (const std::size_t keys : {std::size_t{1}, std::size_t{64}}) {
      if (quick_ && keys > 1) break;
      const auto use = [&](const char* capacity, const char* rate, const char* cost,
                           std::size_t at_once) {
        bench::send(server_, sha, {capacity, rate, cost}, {"usual"}, at_once);
      };
      const auto take = [&] { use("10000000", "1000", "1", keys); };
      const int rounds = rounds_of(keys);
      use("10000000", "1000", "9000000", 1);
      print("usual", "busy", keys, server_.count(take, rounds), rounds);
      const auto ask_too_much = [&] { use("10000000", "1000", "9000000", keys); };
      print("usual", "refused", keys, server_.count(ask_too_much, rounds), rounds);
      server_.command("FLUSHALL");
      print("usual", "new", keys, server_.count(take, 1), 1);
      const auto take_of_full = [&] { use("1000", "1000000", "1", keys); };
      print("usual", "idle", keys, server_.count(take_of_full, rounds), rounds);
    }
  }

 private:
  /// Checks that have two keys each.
  void joint_rows() {
    const auto usual = [&](const char* name, std::vector<std::string> constants) {
      std::ifstream file("bench/scripts/" + std::string(name) + ".lua");
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      const std::string sha = server_.command("SCRIPT", "LOAD", text);
      const auto take = [&](const std::string& cost) {
        constants[2] = cost;
        bench::send(server_, sha, constants, {"a", "b"}, 1);
      };
      take("9000");
      print(name, "busy", 1, server_.count([&] { take("1"); }, 1), 1);
      print(name, "refused", 1, server_.count([&] { take("9000"); }, 1), 1);
    };
    joint_row("token_bucket,fixed_window",
              policies::compile(tiers{token_bucket{10'000, every(10ms)}, fixed_window{10'000, 1h}}),
              policies::compile(tiers{token_bucket{1000, every(1us)}, fixed_window{10'000, 1ms}}));
    usual("usual_tiers", {"10000", "1", "1", "10000", "3600000"});
    joint_row("token_bucket,cool_downs",
              {policies::compile(token_bucket{10'000, every(10ms)}), policies::cool_down()},
              {policies::compile(token_bucket{1000, every(1us)}), policies::cool_down()});
    usual("usual_cool_down", {"10000", "1", "1"});
    joint_row("sliding_log,cool_downs",
              {policies::compile(sliding_log{10'000, 1h}), policies::cool_down()},
              {policies::compile(sliding_log{10'000, 1ms}), policies::cool_down()});
    joint_row("token_bucket,sliding_log",
              policies::compile(tiers{token_bucket{10'000, every(10ms)}, sliding_log{10'000, 1h}}),
              policies::compile(tiers{token_bucket{1000, every(1us)}, sliding_log{10'000, 1ms}}));
  }

  /// A check moves the TAT by little, so that it hardly ever crosses a line of the grid.
  void joint_row(const std::string& name, const std::vector<policies::kernel>& kernels,
                 const std::vector<policies::kernel>& brief) {
    bench::load_script(server_, bench::call_of(kernels));
    for (const std::size_t checks : {std::size_t{1}, bench::largest_call(kernels, true)}) {
      const int rounds = rounds_of(checks);
      if (!quick_) {
        std::uint64_t idle = 0;
        between_grid_lines([&] {
          server_.command("FLUSHALL");
          bench::send_call(server_, brief, 1);
          idle = server_.count([&] { bench::send_call(server_, brief, checks); }, rounds);
        });
        print(name, "idle", checks, idle, rounds);
        server_.command("FLUSHALL");
        print(name, "new", checks,
              server_.count([&] { bench::send_call(server_, kernels, checks); }, 1), 1);
      }
      std::uint64_t busy = 0, refused = 0;
      between_grid_lines([&] {
        server_.command("FLUSHALL");
        bench::send_call(server_, kernels, 1, 5000);
        busy = server_.count([&] { bench::send_call(server_, kernels, checks); }, rounds);
        refused = server_.count([&] { bench::send_call(server_, kernels, checks, 9'900); }, rounds);
      });
      print(name, "busy", checks, busy, rounds);
      print(name, "refused", checks, refused, rounds);
      if (kernels.back() != policies::kernel(policies::cool_down())) continue;
      // Each refused by a cool-down of its own.
      const std::string cooling_state = cooling_for(1h);
      for (std::size_t i = 0; i < bench::subject_count; ++i) {
        server_.command("SET", bench::key_of(i, kernels.back(), 1), cooling_state, "PX", "3600000");
      }
      const std::uint64_t cooling = server_.count(
          [&] { bench::send_call(server_, kernels, checks); }, rounds);
      print(name, "cooling", checks, cooling, rounds);
      if (checks > 1) print_hold(name, "cooling", checks, cooling, rounds);
    }
  }

  /// The state of a cool-down that begins now.
  static std::string cooling_for(std::chrono::microseconds length) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto until = std::chrono::duration_cast<std::chrono::microseconds>(now) + length;
    return number(until.count()) + number(length.count());
  }
  static std::string number(std::int64_t n) {
    const std::string digits = std::to_string(n);
    return std::string(16 - digits.size(), '0') + digits;
  }

  static std::vector<policies::kernel> alone(const policy& p) { return {policies::compile(p)}; }

  /// How long the largest call of each kind holds the server.
  void holds() {
    hold("token_bucket", alone(token_bucket{10'000'000, every(1ms)}),
         alone(token_bucket{1000, every(1us)}), 1'000'000);
    hold("fixed_window", alone(fixed_window{10'000, 1h}), alone(fixed_window{10'000, 1ms}), 500);
    hold("sliding_window", alone(sliding_window{10'000, 1h}), alone(sliding_window{10'000, 1ms}),
         500);
    hold("sliding_log", alone(sliding_log{1000, 1h}), alone(sliding_log{1000, 1ms}), 500);
    hold("token_bucket,7_in_3s", alone(token_bucket{10'000'000, {7, 3s}}),
         alone(token_bucket{1000, {7, 3us}}), 500);
    // The full kernel takes the keys of all others.
    hold("fixed_window,count_refused",
         alone(fixed_window{.limit = 10'000, .window = 1h, .count_refused = true}),
         alone(fixed_window{.limit = 10'000, .window = 1ms, .count_refused = true}), 500);
    hold("sliding_log,count_refused",
         alone(sliding_log{.limit = 1000, .window = 1h, .count_refused = true}),
         alone(sliding_log{.limit = 1000, .window = 1ms, .count_refused = true}), 500);
    hold("tiers,bucket_and_window",
         policies::compile(tiers{token_bucket{10'000, every(10ms)}, fixed_window{10'000, 1h}}),
         policies::compile(tiers{token_bucket{1000, every(1us)}, fixed_window{10'000, 1ms}}), 5000);
    hold("tiers,bucket_and_log",
         policies::compile(tiers{token_bucket{10'000, every(1s)}, sliding_log{1000, 1h}}),
         policies::compile(tiers{token_bucket{1000, every(1us)}, sliding_log{1000, 1ms}}), 500);
    hold("token_bucket,cool_downs",
         {policies::compile(token_bucket{10'000, every(10ms)}), policies::cool_down()},
         {policies::compile(token_bucket{1000, every(1us)}), policies::cool_down()}, 5000);
    hold("sliding_log,cool_downs",
         {policies::compile(sliding_log{1000, 1h}), policies::cool_down()},
         {policies::compile(sliding_log{1000, 1ms}), policies::cool_down()}, 500);
    if (quick_) return;
    const policies::kernel log = policies::compile(sliding_log{1000, 6s});
    one_leaves("sliding_log", {log});
    one_leaves("sliding_log,cool_downs", {log, policies::cool_down()});
  }

  void all_reservations() {
    reservations("acquire,token_bucket", alone(token_bucket{1000, every(1s)}));
    reservations("acquire,fixed_window", alone(fixed_window{1000, 1h}));
    reservations("acquire,sliding_window", alone(sliding_window{1000, 1h}));
    reservations("acquire,sliding_log", alone(sliding_log{1000, 1h}));
    reservations("acquire,token_bucket,cool_downs",
                 {policies::compile(token_bucket{1000, every(1s)}), policies::cool_down()});
  }

  /// The log has two entries. The older one has left when the third check comes: the entries are
  /// 3 s apart, and a window has 6 s. That check's window, too, ends before the next grid line, so
  /// no TTL is renewed.
  void one_leaves(const std::string& name, const std::vector<policies::kernel>& kernels) {
    server_.command("FLUSHALL");
    leave_to_grid_line(14s);
    const std::size_t subjects = bench::largest_call(kernels, true);
    const auto check = [&] { bench::send_call(server_, kernels, subjects); };
    check();
    std::this_thread::sleep_for(3s);
    check();
    std::this_thread::sleep_for(3500ms);
    print_hold(name, "one_leaves", subjects, server_.count(check, 1), 1);
  }

  /// `reserved`: of 1000 units 982 are taken, so that requests of 30 have to wait.
  void reservations(const std::string& name, const std::vector<policies::kernel>& kernels) {
    constexpr std::int64_t longest_wait = 4'000'000'000;  // no request here has to wait as long
    const std::size_t most = bench::most_turns(kernels);
    const auto call = [&](std::int64_t cost) {
      return bench::call_of(kernels, cost, longest_wait);
    };
    bench::load_script(server_, call(1));
    bench::load_script(server_, bench::call_of(kernels));
    for (const std::size_t turns : {std::size_t{1}, most}) {
      const auto count = [&](std::int64_t cost) {
        return server_.count([&] { bench::send_call(server_, call(cost), turns); }, 1);
      };
      const auto say = [&](const char* traffic, std::uint64_t total) {
        print(name, traffic, turns, total, 1);
        if (turns == most) print_hold(name, traffic, turns, total, 1);
      };
      server_.command("FLUSHALL");
      say("new", count(1));
      std::uint64_t busy = 0, reserved = 0;
      between_grid_lines([&] {
        server_.command("FLUSHALL");
        bench::send_call(server_, kernels, 1, 401);
        busy = count(1);
        bench::send_call(server_, kernels, 1, 580);
        reserved = count(30);
      });
      say("busy", busy);
      say("reserved", reserved);
    }
  }

  static constexpr std::chrono::microseconds grid{policies::grid};

  /// Does it again if a line of the grid went by meanwhile: behind it, checks renew TTLs.
  template <class F>
  static void between_grid_lines(F&& fill_and_count) {
    for (int attempts = 1;; ++attempts) {
      const auto line = std::chrono::system_clock::now().time_since_epoch() / grid;
      fill_and_count();
      if (std::chrono::system_clock::now().time_since_epoch() / grid == line) return;
      if (attempts == 10) throw std::runtime_error("too slow to count between two grid lines");
    }
  }

  /// Returns at a time with at least that much left until TTLs are renewed.
  static void leave_to_grid_line(std::chrono::microseconds least) {
    const auto now = std::chrono::system_clock::now();
    const auto left = grid - now.time_since_epoch() % grid;
    if (left < least) std::this_thread::sleep_until(now + left);
  }

  /// `taken` makes a key busy.
  void hold(const std::string& name, const std::vector<policies::kernel>& kernels,
            const std::vector<policies::kernel>& brief, std::int64_t taken) {
    const std::size_t small = bench::largest_call(kernels, false),
                      large = bench::largest_call(kernels, true);
    bench::load_script(server_, bench::call_of(kernels));
    server_.command("FLUSHALL");
    print_hold(name, "new", small,
               server_.count([&] { bench::send_call(server_, kernels, small); }, 1), 1);
    std::uint64_t total = 0;
    const int rounds = rounds_of(large);
    between_grid_lines([&] {
      server_.command("FLUSHALL");
      bench::send_call(server_, kernels, small);
      bench::send_call(server_, kernels, large, taken);
      total = server_.count([&] { bench::send_call(server_, kernels, large); }, rounds);
    });
    print_hold(name, "busy", large, total, rounds);
    const bool is_bucket = brief.size() == 1 && std::holds_alternative<policies::meter>(brief[0]);
    const std::size_t idle = is_bucket ? large : small;
    between_grid_lines([&] {
      server_.command("FLUSHALL");
      bench::send_call(server_, brief, idle);
      total = server_.count([&] { bench::send_call(server_, brief, idle); }, 1);
    });
    print_hold(name, "idle", idle, total, 1);
  }

  static void print_hold(const std::string& name, const char* traffic, std::size_t subjects,
                         std::uint64_t total, int rounds) {
    std::cout << "hold " << name << ' ' << traffic << ' ' << subjects << ' '
              << total / bench::calls_of(subjects) / static_cast<std::uint64_t>(rounds)
              << std::endl;
  }

  /// `taken` makes a key busy; then it is filled up to the `limit`, unless that is 0, and a check
  /// of the cost `too_much` is refused.
  void row(const std::string& name, const policies::kernel& kernel, const policies::kernel& brief,
           std::int64_t taken, std::int64_t limit, std::int64_t too_much) {
    for (const std::size_t keys : {std::size_t{1}, std::size_t{64}}) {
      const auto check = [&](std::int64_t cost) {
        bench::send_call(server_, {kernel}, keys, cost);
      };
      const auto fill = [&](std::int64_t cost) { bench::send_call(server_, {kernel}, 1, cost); };
      const int rounds = rounds_of(keys);
      std::uint64_t busy = 0, refused = 0;
      if (!quick_) {
        const auto use = [&](std::size_t at_once) { bench::send_call(server_, {brief}, at_once); };
        std::uint64_t idle = 0;
        between_grid_lines([&] {
          server_.command("FLUSHALL");
          use(1);
          idle = server_.count([&] { use(keys); }, rounds);
        });
        print(name, "idle", keys, idle, rounds);
        server_.command("FLUSHALL");
        print(name, "new", keys, server_.count([&] { check(1); }, 1), 1);
      }
      between_grid_lines([&] {
        server_.command("FLUSHALL");
        fill(taken);
        fill(1);
        busy = server_.count([&] { check(1); }, rounds);
        if (limit > 0) fill(limit - taken - 1 - rounds);
        refused = server_.count([&] { check(too_much); }, rounds);
      });
      print(name, "busy", keys, busy, rounds);
      print(name, "refused", keys, refused, rounds);
    }
  }

  /// Lua collects garbage in some large script calls and not in others: several are averaged.
  int rounds_of(std::size_t keys) const { return keys == 1 ? 1 : quick_ ? 4 : 8; }

  static void print(const std::string& name, const char* traffic, std::size_t in_call,
                    std::uint64_t total, int rounds) {
    const std::size_t checks = bench::calls_of(in_call) * in_call;
    std::cout << name << ' ' << traffic << ' ' << in_call << ' '
              << total / checks / static_cast<std::uint64_t>(rounds) << std::endl;
  }

  bench::counted_server server_;
  bool quick_;
};

}  // namespace

int main(int count, char** words) {
  const bool quick = count == 5 && std::string(words[4]) == "quick";
  if (count != 4 && !quick) return 2;
  try {
    program(words[1], words[2], words[3], quick).run();
  } catch (const std::exception& e) {
    std::cerr << "server_instructions: " << e.what() << '\n';
    return 1;
  }
}
