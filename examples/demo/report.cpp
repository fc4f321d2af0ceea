#include "report.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <mutex>

namespace demo {

using namespace std::chrono_literals;

namespace {

const char* name_of(phase which) { return which == phase::throttled ? "throttled" : "unthrottled"; }

std::string wait_text(const tally& t, double part) {
  if (t.waits.empty()) return "-";
  const auto wait = wait_percentile(t, part);
  std::array<char, 32> text;
  const double ms = static_cast<double>(wait.count()) / 1000;
  const int size = ms < 1000 ? std::snprintf(text.data(), text.size(), "%.1f ms", ms)
                             : std::snprintf(text.data(), text.size(), "%.2f s", ms / 1000);
  return {text.data(), static_cast<std::size_t>(size)};
}

void show_progress(std::stop_token stopped, const vendor& server, phase which,
                   std::chrono::seconds duration) {
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const auto start = std::chrono::steady_clock::now();
  const auto before = server.seen();
  std::mutex mutex;
  std::condition_variable_any alarm;
  std::unique_lock lock(mutex);
  for (auto next = start; !stopped.stop_requested();) {
    next += terminal ? 100ms : 1000ms;
    alarm.wait_until(lock, stopped, next, [] { return false; });
    if (!terminal && stopped.stop_requested()) return;  // the last full second was the end
    const auto seen = server.seen();
    const std::chrono::duration<double> elapsed = std::min<std::chrono::nanoseconds>(
        std::chrono::steady_clock::now() - start, duration);
    const long long ok = seen.ok - before.ok;
    const long long refused = seen.refused - before.refused;
    std::printf("%s%-11s  %4.1f s of %lld s   requests %6lld   ok %6lld   429s %6lld%s",
                terminal ? "\r" : "", name_of(which), elapsed.count(),
                static_cast<long long>(duration.count()), ok + refused, ok, refused,
                terminal ? "\x1b[K" : "\n");
    std::fflush(stdout);
  }
  if (terminal) std::printf("\n");
}

void print_row(const char* phase_name, const std::string& process, bool with_process,
               const tally& t, std::chrono::seconds duration) {
  std::printf("%-11s", phase_name);
  if (with_process) std::printf("  %7s", process.c_str());
  std::printf("  %8lld  %6lld  %6lld  %6.1f  %8s  %8s  %6d\n", static_cast<long long>(t.requests),
              static_cast<long long>(t.ok), static_cast<long long>(t.refused),
              static_cast<double>(t.ok) / static_cast<double>(duration.count()),
              wait_text(t, 0.5).c_str(), wait_text(t, 0.99).c_str(), t.served);
}

}  // namespace

progress::progress(const vendor& server, phase which, std::chrono::seconds duration)
    : thread_([&server, which, duration](std::stop_token stopped) {
        show_progress(std::move(stopped), server, which, duration);
      }) {}

tally phase_report::total() const {
  tally sum;
  for (const tally& t : processes) sum += t;
  return sum;
}

void print_table(const std::vector<phase_report>& reports) {
  const bool several = reports.front().processes.size() > 1;
  std::printf("\n%-11s", "phase");
  if (several) std::printf("  %7s", "process");
  std::printf("  %8s  %6s  %6s  %6s  %8s  %8s  %6s\n", "requests", "ok", "429s", "rate/s",
              "p50 wait", "p99 wait", "served");
  for (const phase_report& report : reports) {
    for (std::size_t i = 0; several && i < report.processes.size(); ++i) {
      print_row(i == 0 ? name_of(report.which) : "", std::to_string(i + 1), several,
                report.processes[i], report.duration);
    }
    print_row(several ? "" : name_of(report.which), "total", several, report.total(),
              report.duration);
  }
  std::printf(
      "\nrate/s: requests answered 200. wait: of these, from wanting to call until sent; who never "
      "got\n"
      "through is not in it. served: callers that got through at least once.\n");
}

bool print_verdict(const tally& unthrottled, const phase_report& throttled, int callers, int rate) {
  const tally kept = throttled.total();
  const double allowance = static_cast<double>(rate) *
                           static_cast<double>(throttled.duration.count());
  const double used = 100 * static_cast<double>(kept.ok) / allowance;
  if (kept.refused != 0) {
    std::printf("\nFAILED: the vendor refused %lld of %lld throttled requests.\n",
                static_cast<long long>(kept.refused), static_cast<long long>(kept.requests));
    return false;
  }
  if (used < 90) {
    std::printf(
        "\nFAILED: the throttled callers used only %.1f %% of the allowance; 90 %% are due.\n",
        used);
    return false;
  }
  std::printf(
      "\nUnthrottled, %.0f %% of the requests were refused, and %d of %d callers got through; with "
      "weir,\n%d got through and none was ever refused, at %.1f %% of the vendor's allowance.\n",
      unthrottled.requests == 0 ? 0.0
                                : 100 * static_cast<double>(unthrottled.refused) /
                                      static_cast<double>(unthrottled.requests),
      unthrottled.served, callers, kept.served, used);
  return true;
}

}  // namespace demo
