// Checks through one connection to a redis-server of our own, beside the same scripts driven by
// redis-benchmark.
//
//   redis_bench [--seconds=0.5] [--warm-up=0.1] [Google Benchmark arguments]
//   redis_bench --print-commands      what redis-benchmark is told to send, one line per row
//
// A row is one run of fixed length. The names are read by tables.awk:
//   weir/POLICY/TRAFFIC/callers:N/keys:K[/single_threaded]        K: max_keys_per_call
//   redis-benchmark/POLICY/TRAFFIC/callers:N    N: requests under way, 64 of them in each pipeline
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/scripts.hpp"
#include "support/load.hpp"
#include "support/process.hpp"

namespace {

using namespace std::chrono_literals;
using bench::traffic;
using bench::workload;

bench::core_pair cores;
bench::load_options timing;

constexpr std::string_view name_of(traffic t) {
  return t == traffic::busy ? "busy" : t == traffic::idle ? "idle" : "hot";
}

/// Nothing is ever refused. Busy states outlive the run; idle ones are over after 10 ms, while a
/// key waits for its turn for 100 ms and more.
weir::policy policy_for(std::string_view name, bool idle) {
  const std::int64_t limit = idle ? 1000 : 2'000'000'000;
  const auto window = idle ? std::chrono::microseconds(10ms) : std::chrono::microseconds(1h);
  const weir::rate rate = idle ? weir::per_second(100) : weir::per_second(1);
  if (name == "token_bucket") return weir::token_bucket{.capacity = limit, .refill = rate};
  if (name == "gcra") return weir::gcra{.rate = rate, .burst = limit};
  if (name == "leaky_bucket") return weir::leaky_bucket{.capacity = limit, .leak = rate};
  if (name == "fixed_window") return weir::fixed_window{.limit = limit, .window = window};
  if (name == "sliding_window") return weir::sliding_window{.limit = limit, .window = window};
  if (name == "sliding_log") {
    // About five entries are alive in a busy log.
    return weir::sliding_log{.limit = 1000,
                             .window = idle ? window : std::chrono::microseconds(1s)};
  }
  // One unit takes a third of 1 s (or 1/97 s): no whole number of microseconds.
  return weir::token_bucket{.capacity = limit, .refill = weir::per_second(idle ? 97 : 3)};
}

workload make_workload(std::string_view policy, traffic t) {
  std::string name(policy);
  name += '-';
  name += name_of(t);
  return {name, policy_for(policy, t == traffic::idle), t};
}

/// The server, holding the keys of one workload and no others.
const bench::redis_server& server_for(const workload& work) {
  static const bench::redis_server server(cores.server);
  static std::string filled_for;
  if (filled_for != work.name) {
    server.command({"FLUSHALL"});
    if (work.traffic == traffic::busy) bench::fill(server, work);
    filled_for = work.name;
  }
  return server;
}

void report(benchmark::State& state, const bench::load_result& r) {
  state.SetIterationTime(r.seconds / r.checks);
  state.counters["checks_per_s"] = r.checks / r.seconds;
  state.counters["p50_us"] = r.p50_us;
  state.counters["p99_us"] = r.p99_us;
  state.counters["client_us"] = r.client_cpu_seconds / r.checks * 1e6;
  state.counters["server_us"] = r.server_cpu_seconds / r.checks * 1e6;
}

void weir_row(benchmark::State& state, const workload& work, const bench::load_options& options) {
  for (auto _ : state) {
    const bench::load_result r = bench::run_load(server_for(work), work, options);
    report(state, r);
    state.counters["allocs"] = r.allocations / r.checks;
  }
}

std::vector<std::string> redis_benchmark_command(const workload& work, const std::string& socket,
                                                 std::size_t callers, std::size_t requests) {
  std::vector<std::string> command{"redis-benchmark", "--csv", "--precision", "3", "-s", socket};
  const auto option = [&command](const char* name, std::size_t value) {
    command.push_back(name);
    command.push_back(std::to_string(value));
  };
  option("-c", std::max<std::size_t>(1, callers / 64));
  option("-P", std::min<std::size_t>(64, callers));
  option("-n", requests);
  option("-r", bench::key_count);
  for (std::string& word : bench::command_of(work)) command.push_back(std::move(word));
  return command;
}

/// The line behind the header: "test","rps","avg","min","p50","p95","p99","max", the times in
/// milliseconds.
bench::load_result read_csv(const std::string& output, std::size_t requests) {
  std::vector<double> numbers;
  const std::size_t line = output.rfind("\n\"") + 1;  // the test's name holds neither
  for (std::size_t at = output.find("\",\"", line); at != output.npos;
       at = output.find("\",\"", at + 3)) {
    numbers.push_back(std::strtod(output.c_str() + at + 3, nullptr));
  }
  if (numbers.size() != 7) throw std::runtime_error("redis-benchmark says: " + output);
  bench::load_result r;
  r.checks = static_cast<double>(requests);
  r.seconds = r.checks / numbers[0];
  r.p50_us = numbers[3] * 1e3;
  r.p99_us = numbers[5] * 1e3;
  return r;
}

void redis_benchmark_row(benchmark::State& state, const workload& work, std::size_t callers) {
  for (auto _ : state) {
    const bench::redis_server& server = server_for(work);
    for (const weir::redis::script& s : weir::redis::scripts()) {
      server.command({"SCRIPT", "LOAD", std::string(s.text)});
    }
    // One run to learn how many requests fill the time, one to measure.
    std::size_t requests = 20'000;
    for (int run = 0; run < 2; ++run) {
      const double before = server.cpu_seconds();
      const bench::program_result done = bench::run_program(
          redis_benchmark_command(work, server.socket_path(), callers, requests));
      bench::load_result r = read_csv(done.output, requests);
      r.client_cpu_seconds = done.cpu_seconds;
      r.server_cpu_seconds = server.cpu_seconds() - before;
      report(state, r);
      requests = static_cast<std::size_t>(r.checks / r.seconds * timing.measured.count());
    }
  }
}

/// A row that throws says so and stops the program with a failure: half a table would be taken for
/// a whole one.
template <class Row, class... Args>
void add(const std::string& name, Row row, Args... args) {
  benchmark::RegisterBenchmark(name.c_str(),
                               [=](benchmark::State& state) {
                                 try {
                                   row(state, args...);
                                 } catch (const std::exception& e) {
                                   std::fprintf(stderr, "%s: %s\n", name.c_str(), e.what());
                                   std::exit(1);
                                 }
                               })
      ->Iterations(1)
      ->UseManualTime()
      ->Unit(benchmark::kNanosecond);
}

void add_rows(std::string_view policy, traffic t, const std::vector<std::size_t>& callers,
              bool print_only) {
  const workload work = make_workload(policy, t);
  const std::string prefix = std::string(policy) + "/" + std::string(name_of(t)) + "/callers:";
  for (const std::size_t n : callers) {
    if (print_only) {
      for (const std::string& w : redis_benchmark_command(work, "SOCKET", n, 100'000)) {
        std::printf("%s ", w.c_str());
      }
      std::printf("\n");
      continue;
    }
    // 64 keys in a call, and each in its own; no difference where there is only one key.
    bench::load_options options = timing;
    options.callers = n;
    for (const std::size_t keys : {64, 1}) {
      if (keys == 1 && t == traffic::hot) continue;
      options.max_keys_per_call = keys;
      add("weir/" + prefix + std::to_string(n) + "/keys:" + std::to_string(keys), weir_row, work,
          options);
    }
    if (policy == "token_bucket" && n >= 1024 && t != traffic::idle) {
      options.max_keys_per_call = 64;
      options.single_threaded = true;
      add("weir/" + prefix + std::to_string(n) + "/keys:64/single_threaded", weir_row, work,
          options);
    }
    add("redis-benchmark/" + prefix + std::to_string(n), redis_benchmark_row, work, n);
  }
}

/// The number behind "--name=", taken out of the arguments.
std::optional<double> take_number(int& argc, char** argv, std::string_view option) {
  std::optional<double> found;
  int kept = 1;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]).starts_with(option)) {
      found = std::strtod(argv[i] + option.size(), nullptr);
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  using seconds = std::chrono::duration<double>;
  if (const auto s = take_number(argc, argv, "--seconds=")) timing.measured = seconds(*s);
  if (const auto s = take_number(argc, argv, "--warm-up=")) timing.warm_up = seconds(*s);
  const bool print_only = take_number(argc, argv, "--print-commands").has_value();

  cores = bench::choose_cores();
  bench::pin_to(cores.client);
  if (cores.client < 0) std::fprintf(stderr, "Only one core: client and server share it.\n");

  add_rows("token_bucket", traffic::busy, {1, 64, 1024, 10'000}, print_only);
  add_rows("token_bucket", traffic::idle, {1, 64, 1024, 10'000}, print_only);
  add_rows("token_bucket", traffic::hot, {64, 1024, 10'000}, print_only);
  for (const auto* policy : {"token_bucket_thirds", "gcra", "leaky_bucket", "fixed_window",
                             "sliding_window", "sliding_log"}) {
    add_rows(policy, traffic::busy, {1024}, print_only);
    add_rows(policy, traffic::idle, {1024}, print_only);
  }
  if (print_only) return 0;

  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
