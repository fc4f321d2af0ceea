#include "options.hpp"

#include <charconv>

namespace demo {

namespace {

// scripts/demo --help prints these lines too, before anything is built.
constexpr std::string_view usage_text = R"help(
scripts/demo [options]

A vendor's HTTP server, in this process, answers 429 to all beyond 50 requests per second.
Several hundred coroutines call it: first as they like, then throttled by weir.

  --store URL      where weir keeps its count: memory:// (the default, needs no server), or
                   redis://[user:password@]host:port or unix:///path/to/socket, and then
                   several processes share the one limit
  --processes N    processes that share it, 1 to 64 (default: 4; with memory:// just 1)
  --callers N      coroutines in all, 1 to 10000 (default: 300)
  --seconds N      length of the throttled part, 2 to 3600 (default: 10)
  --rate N         requests per second that the vendor allows, 1 to 10000 (default: 50)
  --help           this text

Exit status: 0 if the throttled part saw no 429 and used at least 90 % of the allowance;
1 if not, or if it could not run; 2 if the options are wrong.
)help";

int parse_number(const std::string& option, const std::string& text, int least, int most) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || number < least || number > most) {
    throw usage_error(option + " takes a number from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", not \"" + text + "\"");
  }
  return number;
}

}  // namespace

std::string_view usage() { return usage_text.substr(1); }

options parse_options(const std::vector<std::string>& arguments) {
  options result;
  bool processes_given = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    // Both "--rate 50" and "--rate=50".
    const auto equals = arguments[i].find('=');
    const std::string name = arguments[i].substr(0, equals);
    const auto value = [&] {
      if (equals != std::string::npos) return arguments[i].substr(equals + 1);
      if (++i == arguments.size()) throw usage_error(name + " needs a value");
      return arguments[i];
    };
    if (name == "--help" || name == "-h") {
      result.help = true;
    } else if (name == "--store") {
      result.store = value();
    } else if (name == "--callers") {
      result.callers = parse_number(name, value(), 1, 10'000);
    } else if (name == "--seconds") {
      result.seconds = parse_number(name, value(), 2, 3600);
    } else if (name == "--processes") {
      result.processes = parse_number(name, value(), 1, 64);
      processes_given = true;
    } else if (name == "--rate") {
      result.rate = parse_number(name, value(), 1, 10'000);
    } else {
      throw usage_error("unknown option " + name);
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
