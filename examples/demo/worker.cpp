#include "worker.hpp"

#include <iostream>
#include <sstream>
#include <stdexcept>

namespace demo {

using namespace std::chrono_literals;

namespace {

std::vector<std::string> to_arguments(const job& work) {
  return {"--worker",
          work.store,
          work.account,
          std::to_string(work.allowance),
          std::to_string(work.callers),
          std::to_string(work.all_callers),
          std::to_string(work.vendor_port),
          std::to_string(work.ahead_of_store.count())};
}

job from_arguments(const std::vector<std::string>& arguments) {
  job work;
  work.store = arguments.at(0);
  work.account = arguments.at(1);
  work.allowance = std::stoi(arguments.at(2));
  work.callers = std::stoi(arguments.at(3));
  work.all_callers = std::stoi(arguments.at(4));
  work.vendor_port = static_cast<std::uint16_t>(std::stoi(arguments.at(5)));
  work.ahead_of_store = std::chrono::microseconds{std::stoll(arguments.at(6))};
  return work;
}

}  // namespace

worker::worker(const job& work) : process_(to_arguments(work)) {}

void worker::start(phase which, std::chrono::seconds duration) {
  duration_ = duration;
  process_.write_line((which == phase::throttled ? "throttled " : "unthrottled ") +
                      std::to_string(duration.count()));
}

tally worker::finish() {
  std::istringstream line(process_.read_line(duration_ + 10s));
  std::string status;
  line >> status;
  if (status != "done") {
    std::string text;
    std::getline(line >> std::ws, text);
    throw std::runtime_error("worker process " + std::to_string(process_.pid()) + ": " + text);
  }
  tally result;
  if (!(line >> result)) throw std::runtime_error("a worker process sent half a result");
  return result;
}

int run_worker(const std::vector<std::string>& arguments) {
  examples::die_with_parent();
  const job work = from_arguments(arguments);
  std::string name;
  for (int seconds = 0; std::cin >> name >> seconds;) {
    try {
      const auto which = name == "throttled" ? phase::throttled : phase::unthrottled;
      const tally result = run_callers(work, which, std::chrono::seconds{seconds});
      std::cout << "done " << result << std::endl;
    } catch (const std::exception& error) {
      std::cout << "failed " << error.what() << std::endl;
    }
  }
  return 0;
}

}  // namespace demo
