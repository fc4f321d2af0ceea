#pragma once

#include <charconv>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace weir::memcached::test {

/// A memcached without sockets, as far as this library talks to one.
class fake_memcached {
 public:
  struct item {
    std::string value;
    std::uint64_t cas;
  };

  std::map<std::string, item, std::less<>> items;
  std::int64_t started = 1'790'000'000;  // by its clock, in seconds
  std::int64_t running = 0;              // microseconds since
  std::string version = "1.6.18";
  std::size_t item_size_max = 1024 * 1024;
  bool enables_cas = true;
  int gets = 0, stores = 0, swaps_lost = 0, pings = 0, clocks = 0;
  std::string watched;  // the key of whose requests there were so many:
  int gets_of_watched = 0;
  std::int64_t last_expiry = 0;  // the T of the last store
  std::string refuses_stores;    // if not empty, the answer to each
  std::string refuses;           // if not empty, the answer to the next request of an item

  void restart() {
    items.clear();
    next_cas_ = 0;
  }

  /// Runs the first whole requests in `in`, and takes them out of it; appends the replies to `out`.
  void serve(std::string& in, std::string& out, std::size_t most) {
    while (most-- > 0 && run_one(in, out)) {
    }
  }

 private:
  static std::string_view take(std::string_view& text) {
    const std::size_t size = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, size);
    text.remove_prefix(std::min(size + 1, text.size()));
    return word;
  }
  static std::uint64_t number(std::string_view text) {
    std::uint64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
  }

  bool run_one(std::string& in, std::string& out) {
    const std::size_t end = in.find("\r\n");
    if (end == in.npos) return false;
    std::string_view line = std::string_view(in).substr(0, end);
    const std::string_view name = take(line);
    std::size_t used = end + 2;
    if (name == "ms") {
      const std::string key(take(line));
      const auto size = static_cast<std::size_t>(number(take(line)));
      if (in.size() < used + size + 2) return false;
      out += refuses.empty() ? store(key, in.substr(used, size), line) : std::exchange(refuses, {});
      used += size + 2;
    } else if ((name == "mg" || name == "md") && !refuses.empty()) {
      out += std::exchange(refuses, {});
    } else if (name == "mg") {
      ++gets;
      const std::string_view key = take(line);
      gets_of_watched += key == watched;
      const auto found = items.find(key);
      if (found == items.end()) {
        out += "EN\r\n";
      } else {
        out += "VA " + std::to_string(found->second.value.size()) + " c" +
               std::to_string(found->second.cas) + "\r\n" + found->second.value + "\r\n";
      }
    } else if (name == "md") {
      const auto found = items.find(take(line));
      if (found == items.end()) {
        out += "NF\r\n";
      } else if (found->second.cas != number(take(line).substr(1))) {
        ++swaps_lost;
        out += "EX\r\n";
      } else {
        items.erase(found);
        out += "HD\r\n";
      }
    } else if (name == "mn") {
      ++pings;
      out += "MN\r\n";
    } else if (name == "stats" && line == "settings") {
      out += "STAT item_size_max " + std::to_string(item_size_max) + "\r\nSTAT cas_enabled " +
             (enables_cas ? "yes" : "no") + "\r\nEND\r\n";
    } else if (name == "stats") {
      ++clocks;
      out += "STAT pid 7\r\nSTAT version " + version + "\r\nSTAT time " +
             std::to_string(started + running / 1'000'000) + "\r\nSTAT threads 4\r\nEND\r\n";
    } else {
      out += "ERROR\r\n";
    }
    in.erase(0, used);
    return true;
  }

  std::string store(const std::string& key, std::string value, std::string_view flags) {
    ++stores;
    if (!refuses_stores.empty()) {
      items.erase(key);  // as the real one does
      return refuses_stores;
    }
    const std::string_view mode = take(flags);
    if (flags.starts_with('T')) last_expiry = static_cast<std::int64_t>(number(flags.substr(1)));
    const auto found = items.find(key);
    if (mode == "ME") {
      if (found != items.end()) {
        ++swaps_lost;
        return "NS\r\n";
      }
    } else if (found == items.end()) {
      return "NF\r\n";
    } else if (found->second.cas != number(mode.substr(1))) {
      ++swaps_lost;
      return "EX\r\n";
    }
    items.insert_or_assign(key, item{std::move(value), ++next_cas_});
    return "HD\r\n";
  }

  std::uint64_t next_cas_ = 0;
};

}  // namespace weir::memcached::test
