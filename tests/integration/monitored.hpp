#pragma once

#include "support/redis_client.hpp"
#include "support/test.hpp"

namespace weir::test {

/// The quoted words of a line of MONITOR. States are bytes: a quote among them comes after a
/// backslash.
inline std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;
  for (std::size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '"') {
      inside = !inside;
      if (inside) words.emplace_back();
    } else if (inside) {
      words.back() += line[at];
      if (line[at] == '\\' && at + 1 < line.size()) words.back() += line[++at];
    }
  }
  return words;
}

/// What a server did for the scripts that it ran.
struct scripts_seen {
  std::set<std::string> shas;
  std::size_t calls = 0;
  std::size_t touches = 0;  // commands with a key
};

/// Reads what a connection in MONITOR has been sent by now, and judges each script call: it touches
/// the keys that it has declared, which is what a cluster needs, and reads the clock once, so that
/// all of it happens at one time. The scripts have to be loaded: a call that misses its script
/// reads no clock.
inline scripts_seen judge_scripts(redis_client& monitor, redis_client& client) {
  client.must("ECHO", "that is all");
  scripts_seen seen;
  std::set<std::string> declared;
  std::string call;
  int times = 1;
  for (;;) {
    const std::string line = monitor.read().text;
    const bool over = line.find("that is all") != std::string::npos;
    const auto words = words_of(line);
    if (!over && words.empty()) continue;
    if (over || words[0] == "EVALSHA" || words[0] == "EVAL") {
      BOOST_TEST(times == 1, "the clock was read " << times << " times: " << call);
      if (over) return seen;
      ++seen.calls;
      seen.shas.insert(words.at(1));
      call = line;
      times = 0;
      declared.clear();
      for (std::size_t i = 0; i < std::stoul(words.at(2)); ++i) declared.insert(words.at(3 + i));
    } else if (line.find(" lua]") != std::string::npos) {
      if (words[0] == "TIME") {
        ++times;
      } else {
        ++seen.touches;
        BOOST_TEST((words.size() > 1 && declared.contains(words[1])), line);
      }
    }
  }
}

}  // namespace weir::test
