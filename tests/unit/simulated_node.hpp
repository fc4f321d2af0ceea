#pragma once

#include "redis/slot.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

using weir::test::fake_check;

/// What became of a check, by its cost, which no other check has.
struct deed {
  std::string key;
  const fake_check* check = nullptr;
  int executed = 0;
  bool is_under_way = false;  // sent, and its reply not heard
  bool has_asked = false;     // a node has sent it to another by ASK
  std::int64_t right = 0;     // decision::used once executed
};
using deeds = std::map<std::int64_t, deed>;

/// A node of a Redis Cluster without sockets, as far as a client sees one. It knows by itself which
/// slots it has, and may be behind the times.
class simulated_node {
 public:
  struct reply {
    std::string bytes;
    std::int64_t whose = 0;
  };

  static constexpr std::uint16_t no_owner = 0xffff;

  int number = 0;
  bool is_up = true;
  std::array<std::uint16_t, slot_count> view{};  // the owner of each slot, as this node believes
  std::map<std::uint16_t, int> migrating, importing;  // and the other node
  std::map<std::string, std::int64_t> counts;
  bool is_down = false;  // says CLUSTERDOWN
  bool rejects_login = false;
  std::string refuses;       // what it answers to the next script call, once; with the slot for a $
  int refuses_connects = 0;  // so many
  std::set<std::string> loaded;
  std::deque<reply> replies;
  int executed = 0;
  int moved = 0;  // how often it said MOVED
  int maps = 0;   // how often it was asked for the map

  static std::string address(int number) { return "n" + std::to_string(number) + ":7000"; }

  void accept() {
    reader_.clear();
    replies.clear();
    asking_ = false;
  }
  void read(std::string_view bytes, deeds& all) {
    reader_.feed(bytes);
    while (auto words = reader_.next()) {
      has_text_ = weir::test::name_script(*words);
      answer(*words, all);
    }
  }

  static std::uint16_t slot_of_key(const std::string& key) {
    return slot_of_tag(detail::hash_tag(key));
  }

  /// The keys and the cost of a script call.
  static std::pair<std::vector<std::string>, std::int64_t> take_apart(
      const std::vector<std::string>& words) {
    const std::size_t keys = std::stoul(words[2]);
    std::size_t at = 3 + keys;
    std::vector<std::string> names(words.begin() + 3, words.begin() + static_cast<long>(at));
    return {names, packed_windows(words[1], words[at]).front().cost};
  }

 private:
  void answer(const std::vector<std::string>& words, deeds& all) {
    reply& r = replies.emplace_back();
    const bool asked = std::exchange(asking_, false);
    if (words[0] == "HELLO") {
      r.bytes = rejects_login ? "-WRONGPASS invalid username-password pair or user is disabled.\r\n"
                              : "%1\r\n+mode\r\n+cluster\r\n";
    } else if (words[0] == "CLIENT") {
      r.bytes = "+OK\r\n";
    } else if (words[0] == "PING") {
      r.bytes = "+PONG\r\n";
    } else if (words[0] == "ASKING") {
      asking_ = true;
      r.bytes = "+OK\r\n";
    } else if (words[0] == "SCRIPT" && words[1] == "EXISTS") {
      r.bytes = "*" + std::to_string(words.size() - 2) + "\r\n";
      for (std::size_t i = 2; i < words.size(); ++i) {
        r.bytes += loaded.contains(words[i]) ? ":1\r\n" : ":0\r\n";
      }
    } else if (words[0] == "CLUSTER") {
      ++maps;
      r.bytes = map();
    } else {
      BOOST_TEST_REQUIRE(words[0] == "EVALSHA");
      run(words, asked, all, r);
    }
  }

  std::string map() const {
    std::string ranges;
    int count = 0;
    for (std::size_t first = 0; first < slot_count;) {
      std::size_t last = first;
      while (last + 1 < slot_count && view[last + 1] == view[first]) ++last;
      if (view[first] == no_owner) {
        first = last + 1;
        continue;
      }
      ++count;
      ranges += "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) +
                "\r\n*2\r\n$2\r\nn" + std::to_string(view[first]) + "\r\n:7000\r\n";
      first = last + 1;
    }
    return "*" + std::to_string(count) + "\r\n" + ranges;
  }

  void run(const std::vector<std::string>& words, bool asked, deeds& all, reply& r) {
    const auto [keys, cost] = take_apart(words);
    const std::uint16_t slot = slot_of_key(keys.front());
    r.whose = cost;
    if (!refuses.empty()) {
      r.bytes = "-" + std::exchange(refuses, {}) + "\r\n";
      if (const auto at = r.bytes.find('$'); at != r.bytes.npos) {
        r.bytes.replace(at, 1, std::to_string(slot));
      }
      return;
    }
    if (is_down) {
      r.bytes = "-CLUSTERDOWN The cluster is down\r\n";
      return;
    }
    const auto here = static_cast<std::size_t>(std::count_if(
        keys.begin(), keys.end(), [&](const std::string& k) { return counts.contains(k); }));
    const auto to = [&](const char* what, int node) {
      r.bytes = std::string("-") + what + " " + std::to_string(slot) + " " + address(node) + "\r\n";
    };
    const bool is_owner = view[slot] == number;
    if (is_owner && migrating.contains(slot) && here < keys.size()) {
      if (here == 0) return to("ASK", migrating.at(slot));
      r.bytes = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
      return;
    }
    if (!is_owner && importing.contains(slot) && asked) {
      if (keys.size() > 1 && here < keys.size()) {
        r.bytes = "-TRYAGAIN Multiple keys request during rehashing of slot\r\n";
        return;
      }
    } else if (!is_owner) {
      ++moved;
      return to("MOVED", view[slot]);
    }
    if (has_text_) loaded.insert(words[1]);
    if (!loaded.contains(words[1])) {
      r.bytes = "-NOSCRIPT No matching script.\r\n";
      return;
    }
    deed& d = all.at(cost);
    ++d.executed;
    ++executed;
    std::vector<found_window> found;
    for (const std::string& key : keys) {
      std::int64_t& count = counts[key];
      found.push_back({count > 0 ? 5'000'000 : 0, count});
      count += cost;
      d.right = count;
    }
    r.bytes = window_reply(found, 5'000'000, found.size());
  }

  weir::test::command_reader reader_;
  bool asking_ = false;
  bool has_text_ = false;  // the command is EVAL
};

}  // namespace weir::redis::test
