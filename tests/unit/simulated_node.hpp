#pragma once

#include "redis/slot.hpp"
#include "server_end.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

using weir::test::fake_check;

using weir::test::asked_check;

/// By the cost, which no other check has.
using deeds = std::map<std::int64_t, asked_check>;

/// A node of a Redis Cluster without sockets, as far as a client sees one. It knows by itself which
/// slots it has, and may be behind the times.
class simulated_node final : public weir::test::server_end {
 public:
  static constexpr std::uint16_t no_owner = 0xffff;

  int number = 0;
  std::array<std::uint16_t, slot_count> view{};  // the owner of each slot, as this node believes
  std::map<std::uint16_t, int> migrating, importing;  // and the other node
  std::map<std::string, std::int64_t> counts;
  bool is_down = false;  // says CLUSTERDOWN
  bool rejects_login = false;
  int refuses_connects = 0;  // so many
  std::set<std::string> loaded;
  deeds* all = nullptr;
  int executed = 0;
  int moved = 0;  // how often it said MOVED
  int maps = 0;   // how often it was asked for the map

  static std::string address(int number) { return "n" + std::to_string(number) + ":7000"; }

  error accept() override {
    reader_.clear();
    end();
    asking_ = false;
    if (is_up && refuses_connects == 0) return {};
    if (refuses_connects > 0) --refuses_connects;
    return error::connection_refused;
  }
  void read(std::string_view bytes) override {
    reader_.feed(bytes);
    while (auto words = reader_.next()) {
      has_text_ = weir::test::name_script(*words);
      answer(*words);
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
  void answer(const std::vector<std::string>& words) {
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
      run(words, asked, r);
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

  void run(const std::vector<std::string>& words, bool asked, reply& r) {
    const auto [keys, cost] = take_apart(words);
    const std::int64_t limit = packed_windows(words[1], words[3 + keys.size()]).front().limit;
    const std::uint16_t slot = slot_of_key(keys.front());
    asked_check& d = all->at(cost);
    d.go_to(asked_check::place::server);
    r.whose = {&d};
    r.of_call = true;
    if (!refuses.empty()) {
      r.bytes = "-" + take_refusal() + "\r\n";  // with the slot for a $
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
    ++d.executed;
    ++executed;
    std::vector<found_window> found;
    for (const std::string& key : keys) {
      std::int64_t& count = counts[key];
      found.push_back({count > 0 ? 5'000'000 : 0, count});
      count += cost;
      d.right = {true, count, limit, -1};
    }
    r.bytes = window_reply(found, 5'000'000, found.size());
  }

  weir::test::command_reader reader_;
  bool asking_ = false;
  bool has_text_ = false;  // the command is EVAL
};

}  // namespace weir::redis::test
