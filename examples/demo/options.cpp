#include "options.hpp"

namespace demo {

namespace {

// scripts/demo --help prints these lines too, before anything is built.
constexpr std::string_view usage_text = R"help(
scripts/demo [options]

A vendor's HTTP server, in this process, allows 50 requests per second and answers 429 to the
others. Several hundred coroutines call it: first without weir, then throttled by weir.

  --store URL      where weir keeps its counts: memory:// (the default, needs no server),
                   redis://[user:password@]host:port or unix:///path/to/socket; with a server,
                   several processes share one limit
  --processes N    processes that share it, 1 to 64 (default: 4; with memory:// only 1)
  --callers N      coroutines in all, 1 to 10000 (default: 300)
  --seconds N      length of the throttled part, 2 to 3600 (default: 10)
  --rate N         requests per second that the vendor allows, 1 to 10000 (default: 50)
  --help           this text

Exit status: 0 if the throttled part saw no 429 and used at least 90 % of the allowance;
1 if not, or if it could not run; 2 if the options are wrong.
)help";

}  // namespace

std::string_view usage() { return usage_text.substr(1); }

options parse_options(const std::vector<std::string>& arguments) {
  options result;
  bool processes_given = false;
  examples::command_line line(arguments);
  while (line.next()) {
    if (line.name() == "--help" || line.name() == "-h") {
      result.help = true;
    } else if (line.name() == "--store") {
      result.store = line.value();
    } else if (line.name() == "--callers") {
      result.callers = line.number(1, 10'000);
    } else if (line.name() == "--seconds") {
      result.seconds = line.number(2, 3600);
    } else if (line.name() == "--processes") {
      result.processes = line.number(1, 64);
      processes_given = true;
    } else if (line.name() == "--rate") {
      result.rate = line.number(1, 10'000);
    } else {
      line.unknown();
    }
  }

  const bool shared = !result.store.starts_with("memory:");
  if (!processes_given && shared) result.processes = 4;
  if (!shared && result.processes > 1) {
    throw usage_error("memory:// is the memory of one process: give a --store that " +
                      std::to_string(result.processes) + " processes can share");
  }
  if (result.callers < result.processes) throw usage_error("fewer --callers than --processes");
  return result;
}

}  // namespace demo
