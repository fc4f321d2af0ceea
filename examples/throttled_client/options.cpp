#include "options.hpp"

namespace throttled {

namespace {

// scripts/throttled_client --help prints these lines too, before anything is built.
constexpr std::string_view usage_text = R"help(
scripts/throttled_client [options]

A vendor's HTTPS server allows 120 calls in any second, 25 a second in the long run (unused calls
are saved up, to 150), and 12 at once; now and then it answers 429 and asks for a pause of a second.
Callers in several processes call it as often as it allows, through a throttled client.

  --processes N    processes, 1 to 64 (default: 4; with memory:// only 1)
  --callers N      callers in all, 1 to 1000 (default: 40)
  --seconds N      how long the vendor counts, 3 to 3600 (default: 20)
  --kill-one       one of the processes is killed half-way
  --stop-one       one of the processes is stopped half-way, for longer than its leases last
  --without-weir   the callers call without any limit
  --store URL      where weir keeps its counts (default: a redis-server of its own, for this run);
                   memory:// serves one process
  --help           this text

Exit status: 0 if the vendor counted no violation and at least 97 % of its allowance was used;
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
    } else if (line.name() == "--processes") {
      result.processes = line.number(1, 64);
      processes_given = true;
    } else if (line.name() == "--callers") {
      result.callers = line.number(1, 1000);
    } else if (line.name() == "--seconds") {
      result.seconds = line.number(3, 3600);
    } else if (line.name() == "--kill-one") {
      result.kill_one = true;
    } else if (line.name() == "--stop-one") {
      result.stop_one = true;
    } else if (line.name() == "--without-weir") {
      result.with_weir = false;
    } else {
      line.unknown();
    }
  }
  const bool shared = !result.store.starts_with("memory:");
  if (!processes_given && shared) result.processes = 4;
  if (!shared && result.processes > 1) {
    throw examples::usage_error("memory:// is the memory of one process: give a --store that " +
                                std::to_string(result.processes) + " processes can share");
  }
  if (result.callers < result.processes) {
    throw examples::usage_error("fewer --callers than --processes");
  }
  if ((result.kill_one || result.stop_one) && result.processes < 2) {
    throw examples::usage_error("--kill-one and --stop-one are for several --processes");
  }
  return result;
}

}  // namespace throttled
