// Several hundred coroutines call a vendor that allows 50 requests per second: as they like, then
// throttled by weir. Read caller.cpp first: it is the part that a service would write.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <thread>
#include <weir/redis_store.hpp>

#include "crew.hpp"
#include "options.hpp"
#include "report.hpp"
#include "vendor.hpp"
#include "worker.hpp"

namespace demo {
namespace {

using namespace std::chrono_literals;

/// Each caller's connection has both its ends in this process, or one of them.
void allow_open_files(int needed) {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  const auto wanted = static_cast<rlim_t>(needed);
  if (files.rlim_cur >= wanted) return;
  if (files.rlim_max < wanted) {
    throw usage_error("so many callers need " + std::to_string(needed) +
                      " open files, and the system allows " + std::to_string(files.rlim_max) +
                      " (ulimit -Hn): give fewer --callers");
  }
  files.rlim_cur = wanted;
  ::setrlimit(RLIMIT_NOFILE, &files);
}

/// Says that the store cannot be used, and what to do.
void explain(const boost::system::system_error& error, const std::string& url) {
  std::cerr << "error: the store cannot be used: " << error.what() << "\n";
  if (error.code() != weir::error::timed_out && error.code() != weir::error::connection_refused &&
      error.code() != weir::error::host_unreachable) {
    return;
  }
  // Not the URL itself: it may hold a password.
  const auto redis = weir::parse_redis_url(url);
  const std::string where = redis.unix_path.empty() ? "--port " + std::to_string(redis.port)
                                                    : "--port 0 --unixsocket " + redis.unix_path;
  std::cerr << "Is there a server at "
            << (redis.unix_path.empty() ? redis.host + ":" + std::to_string(redis.port)
                                        : redis.unix_path)
            << "? To start one here, which keeps nothing on disk:\n  redis-server " << where
            << " --save '' --appendonly no\n";
}

/// Runs one phase in all workers, or in this process if there are none.
phase_report run_phase(const vendor& server, std::vector<worker>& workers, const job& work,
                       phase which, std::chrono::seconds duration) {
  const progress shown(server, which, duration);
  phase_report report{which, duration, {}};
  if (workers.empty()) report.processes.push_back(run_callers(work, which, duration));
  for (auto& w : workers) w.start(which, duration);
  for (auto& w : workers) report.processes.push_back(w.finish());
  return report;
}

int run(const options& opts) {
  const bool shared = !opts.store.starts_with("memory:");
  allow_open_files(2 * opts.callers + 100);
  job work;
  try {
    work.ahead_of_store = compare_clocks(opts.store);
  } catch (const boost::system::system_error& error) {
    explain(error, opts.store);
    return 1;
  }

  vendor server(opts.rate);
  work.store = opts.store;
  work.account = "run-" +
                 std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  work.allowance = opts.rate;
  work.callers = work.all_callers = opts.callers;
  work.vendor_port = server.port();

  std::vector<worker> workers;
  for (int i = 0; shared && i < opts.processes; ++i) {
    work.callers = opts.callers / opts.processes + (i < opts.callers % opts.processes ? 1 : 0);
    workers.emplace_back(work);
  }

  std::cout << "A vendor that allows " << opts.rate << " requests per second, and " << opts.callers
            << " callers in " << opts.processes
            << (opts.processes == 1 ? " process.\n" : " processes.\n") << std::flush;
  const std::chrono::seconds duration{opts.seconds};
  std::vector<phase_report> reports;
  reports.push_back(run_phase(server, workers, work, phase::unthrottled, std::min(duration, 4s)));
  // No calls for one window, so that the vendor's limit is free again.
  std::this_thread::sleep_for(vendor::window);
  reports.push_back(run_phase(server, workers, work, phase::throttled, duration));

  print_table(reports);
  return print_verdict(reports[0].total(), reports[1], opts.callers, opts.rate) ? 0 : 1;
}

int main(const std::vector<std::string>& arguments) {
  // If a process at the other end of a pipe is gone, a write fails; no signal is needed.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    if (!arguments.empty() && arguments.front() == "--worker") {
      return run_worker({arguments.begin() + 1, arguments.end()});
    }
    const auto opts = parse_options(arguments);
    if (opts.help) {
      std::cout << usage();
      return 0;
    }
    return run(opts);
  } catch (const usage_error& error) {
    std::cerr << "error: " << error.what() << "\n\n" << usage();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "\nerror: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace demo

int main(int argc, char** argv) { return demo::main({argv + 1, argv + argc}); }
