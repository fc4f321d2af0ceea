// A client that keeps to a vendor's limits, in several processes, and a vendor that counts what
// they do. Read throttled_client.cpp first: it is the part that a service would take over.
// docs/throttled_client.md tells the rest.

#include <signal.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <thread>

#include "../shared/child_process.hpp"
#include "crew.hpp"
#include "options.hpp"
#include "report.hpp"
#include "vendor.hpp"

namespace throttled {
namespace {

using namespace std::chrono_literals;
using examples::child_process;

constexpr std::chrono::seconds patience{60};

/// Every five seconds, but not so late that the calls saved up in a pause could not be used.
std::vector<vendor_clock::duration> plan_pauses(std::chrono::seconds measured) {
  std::vector<vendor_clock::duration> pauses;
  for (auto at = 3s; at + 4s <= measured; at += 5s) pauses.push_back(at);
  return pauses;
}

crew_report last_words(child_process& process) {
  std::istringstream line(process.read_line(patience));
  std::string status;
  crew_report report;
  if (line >> status && status == "done" && line >> report) return report;
  throw std::runtime_error("process " + std::to_string(process.pid()) + ": " + line.str());
}

/// For longer than its leases last.
void stop_for_a_while(child_process& process) {
  process.write_line("stop when you hold a lease");
  if (const auto line = process.read_line(patience); line != "stopping") {
    throw std::runtime_error(line);
  }
  std::this_thread::sleep_for(4s);
  process.signal(SIGCONT);
}

int run(const options& opts) {
  const vendor_limits limits;
  const std::chrono::seconds measured{opts.seconds};
  vendor server(limits, ledger(limits, measured, plan_pauses(measured)));

  job work;
  work.store = opts.store;
  work.account = "run-" +
                 std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  work.certificate = server.certificate_chain();
  work.port = std::to_string(server.port());
  work.with_weir = opts.with_weir;
  std::vector<child_process> processes;
  for (int i = 0; i < opts.processes; ++i) {
    work.callers = opts.callers / opts.processes + (i < opts.callers % opts.processes ? 1 : 0);
    processes.emplace_back(work.to_arguments());
  }
  for (auto& p : processes) {
    if (const auto line = p.read_line(patience); line != "ready") throw std::runtime_error(line);
  }

  std::cout << opts.callers << " callers in " << opts.processes
            << (opts.processes == 1 ? " process" : " processes") << ", for " << opts.seconds
            << " s.\n"
            << std::flush;
  const auto half = vendor_clock::now() + measured / 2;
  for (auto& p : processes) p.write_line("go");
  if (opts.kill_one) {
    std::this_thread::sleep_until(half);
    processes.front().kill();
  }
  if (opts.stop_one) {
    std::this_thread::sleep_until(half);
    stop_for_a_while(processes.back());
  }
  const vendor_report seen = server.report(measured + patience);

  std::vector<std::optional<crew_report>> reports;
  for (auto& p : processes) {
    if (p.pid() >= 0) p.write_line("end");
  }
  for (auto& p : processes) {
    reports.push_back(p.pid() >= 0 ? std::optional(last_words(p)) : std::nullopt);
  }
  print_report(limits, seen, reports);
  if (!print_verdict(seen)) return 1;
  if (opts.stop_one && reports.back()->displaced == 0) {
    std::cout << "FAILED: the process that was stopped did not notice.\n";
    return 1;
  }
  return 0;
}

int main(const std::vector<std::string>& arguments) {
  // If a process at the other end of a pipe is gone, a write fails; no signal is needed.
  ::signal(SIGPIPE, SIG_IGN);
  try {
    if (!arguments.empty() && arguments.front() == "--worker") {
      examples::die_with_parent();
      return run_crew(job::from_arguments({arguments.begin() + 1, arguments.end()}));
    }
    const auto opts = parse_options(arguments);
    if (opts.help) {
      std::cout << usage();
      return 0;
    }
    return run(opts);
  } catch (const examples::usage_error& error) {
    std::cerr << "error: " << error.what() << "\n\n" << usage();
    return 2;
  } catch (const std::exception& error) {
    std::cerr << "\nerror: " << error.what() << "\n";
    return 1;
  }
}

}  // namespace
}  // namespace throttled

int main(int argc, char** argv) { return throttled::main({argv + 1, argv + argc}); }
