#pragma once

#include "redis/resp/error_reply.hpp"
#include "redis/resp/resp_writer.hpp"
#include "redis/script/scripts.hpp"
#include "server_end.hpp"
#include "support/command_reader.hpp"
#include "support/fake_check.hpp"
#include "support/test.hpp"
#include "window_reply.hpp"

namespace weir::redis::test {

/// A check as the server reads it: its keys, and the cost for each.
inline std::string name_of(const detail::check& c) {
  std::string name(1, is_record(c) ? 'r' : resets(c) ? 'd' : 'f');
  detail::for_each_tier(c, [&](const detail::limiter_spec& limiter, std::string_view subject,
                               std::int64_t cost, std::size_t tier) {
    name += ' ';
    limiter.append_key(name, subject, tier);
    if (!resets(c)) name += '=' + std::to_string(cost);
  });
  return name;
}

/// A Redis without sockets, as far as this library talks to one: it reads commands, counts in fixed
/// windows, and answers. It knows which checks each command carries, and keeps account of what it
/// ran for them.
class fake_redis final : public weir::test::server_end {
 public:
  using command = weir::test::command_reader::command;
  using asked_check = weir::test::asked_check;

  // What server it is.
  bool knows_hello = true;
  bool knows_setinfo = true;
  std::string username = "default";
  std::string password;
  std::uint32_t database = 0;  // where the client has to be when it counts
  std::set<std::string> foreign_keys;
  std::string_view pushes;  // ahead of each reply to a script
  /// Says something in place of the server, which then does nothing; empty: nothing.
  std::function<std::string_view(const command&)> interrupts;

  // How it is.
  int connections = 0;
  int pings = 0;
  std::map<std::string, std::int64_t> counts;

  error accept() override {
    ++connections;
    reader_.clear();
    replies.clear();
    on_the_way_.clear();
    hangs_up = turns_away = selected_ = false;
    authenticated_ = password.empty();
    return {};
  }

  /// This check has been put into a write. Checks of one name travel together, unless something
  /// else is asked of the same key in between.
  void expect(asked_check& a) {
    const std::string name = name_of(*a.check);
    on_the_way_[name.substr(2, name.find_first_of("= ", 2) - 2)].push_back({name, &a});
  }

  void read(std::string_view bytes) override {
    reader_.feed(bytes);
    while (!hangs_up) {
      auto words = reader_.next();
      if (!words) return;
      has_text_ = weir::test::name_script(*words);
      obey(*words);
    }
  }

  void obey(const command& words) {
    reply& r = replies.emplace_back();
    r.of_call = words.front() == "EVALSHA";
    const std::string said = answer(words, r.whose);
    r.bytes = (r.of_call ? std::string(pushes) : "") + said;
    for (asked_check* f : r.whose) {
      f->where = asked_check::place::server;
      if (said.front() == '-') f->refusal = classify_error(std::string_view(said).substr(1));
    }
  }

  void forget_scripts() { loaded_.clear(); }
  void know_scripts() {
    for (const redis::script& s : scripts()) loaded_.insert(s.sha);
  }

 private:
  static constexpr std::string_view ok = "+OK\r\n";
  static constexpr std::int64_t now = 5'000'000;  // by its clock

  /// A script call, taken apart.
  struct subject {
    std::vector<std::string> keys;
    std::int64_t count;
    std::vector<asked_check*> whose;
  };
  struct rule {
    std::int64_t limit, cost;
  };

  std::string answer(const command& words, std::vector<asked_check*>& whose) {
    const std::string& name = words[0];
    // First of all: whose they are is known also if they are refused.
    std::vector<subject> subjects;
    std::vector<rule> rules;
    if (name == "EVALSHA") subjects = take_apart(words, rules);
    if (name == "UNLINK") subjects = resets(words);
    for (const subject& s : subjects) whose.insert(whose.end(), s.whose.begin(), s.whose.end());

    if (!refuses.empty() && !subjects.empty()) return "-" + take_refusal() + "\r\n";
    if (interrupts) {
      const std::string_view said = interrupts(words);
      if (!said.empty()) return std::string(said);
    }
    if (name == "HELLO") return hello(words);
    if (name == "AUTH") return authenticate(words.size() == 3 ? words[1] : "default", words.back());
    if (!authenticated_) return "-NOAUTH Authentication required.\r\n";
    if (name == "PING") return ++pings, "+PONG\r\n";
    if (name == "CLIENT" && words[1] == "SETINFO" && !knows_setinfo) {
      return "-ERR Unknown subcommand or wrong number of arguments for 'SETINFO'\r\n";
    }
    if (name == "CLIENT") return std::string(ok);
    if (name == "SELECT") {
      selected_ = words[1] == std::to_string(database);
      return std::string(ok);
    }
    if (name == "SCRIPT" && words[1] == "EXISTS") return exists(words);
    BOOST_TEST_REQUIRE((selected_ || database == 0));
    if (name == "UNLINK") {
      for (subject& s : subjects) {
        counts.erase(s.keys.front());
        for (asked_check* f : s.whose) ++f->executed;
      }
      return ":" + std::to_string(subjects.size()) + "\r\n";
    }
    BOOST_TEST_REQUIRE(name == "EVALSHA");
    if (has_text_) loaded_.insert(words[1]);
    if (!loaded_.contains(words[1])) return "-NOSCRIPT No matching script.\r\n";
    return run(subjects, rules);
  }

  std::string hello(const command& words) {
    if (!knows_hello) return "-ERR unknown command `HELLO`, with args beginning with: `3`\r\n";
    if (words.size() > 4 && words[2] == "AUTH") {
      const std::string said = authenticate(words[3], words[4]);
      if (said != ok) return said;
    }
    if (!authenticated_)
      return "-NOAUTH HELLO must be called with the client already authenticated\r\n";
    return "%1\r\n$5\r\nproto\r\n:3\r\n";
  }

  std::string authenticate(const std::string& user, const std::string& word) {
    authenticated_ = user == username && word == password;
    return authenticated_ ? std::string(ok)
                          : "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
  }

  std::string exists(const command& words) {
    std::string all = "*" + std::to_string(words.size() - 2) + "\r\n";
    for (std::size_t i = 2; i < words.size(); ++i) {
      all += loaded_.contains(words[i]) ? ":1\r\n" : ":0\r\n";
    }
    return all;
  }

  /// The checks that were put into the write for this.
  std::vector<asked_check*> travellers(const std::string& name) {
    auto& line = on_the_way_[name.substr(2, name.find_first_of("= ", 2) - 2)];
    std::vector<asked_check*> first;
    for (; !line.empty() && line.front().first == name; line.pop_front()) {
      first.push_back(line.front().second);
    }
    BOOST_TEST_REQUIRE(!first.empty(), "nobody asked for this: " << name);
    return first;
  }

  std::vector<subject> resets(const command& words) {
    std::vector<subject> subjects;
    for (std::size_t i = 1; i < words.size(); ++i) {
      subjects.push_back({{words[i]}, 0, travellers("d " + words[i])});
    }
    return subjects;
  }

  std::vector<subject> take_apart(const command& words, std::vector<rule>& rules) {
    const std::size_t keys = std::stoul(words[2]);
    std::size_t at = 3 + keys;
    for (const packed_window& w : packed_windows(words[1], words[at++])) {
      rules.push_back({w.limit, w.cost});
    }
    std::vector<subject> subjects;
    const std::size_t checks = keys / rules.size();
    for (std::size_t check = 0; check < checks; ++check) {
      subject& s = subjects.emplace_back();
      s.count = at < words.size() ? std::stoll(words[at++]) : 1;
      std::string name = s.count == 0 ? "f" : "r";
      for (std::size_t i = 0; i < rules.size(); ++i) {
        const std::string& key = words[3 + i * checks + check];
        s.keys.push_back(key);
        name += ' ' + key + '=' + std::to_string(rules[i].cost);
      }
      s.whose = travellers(name);
      // A caller that left after the write began still counts.
      if (s.count > 0) BOOST_TEST_REQUIRE(s.whose.size() == static_cast<std::size_t>(s.count));
    }
    return subjects;
  }

  std::string run(const std::vector<subject>& subjects, const std::vector<rule>& rules) {
    std::vector<found_window> found;
    for (const subject& s : subjects) {
      bool foreign = false;
      for (const std::string& key : s.keys) {
        const bool here = foreign_keys.contains(key);
        const std::int64_t count = counts[key];
        found.push_back({here ? -1 : count > 0 ? now : 0, here ? 0 : count});
        foreign = foreign || here;
      }
      for (asked_check* f : s.whose) {
        if (foreign) {
          f->refusal = error::wrong_type;
          continue;
        }
        ++f->executed;
        f->right = check(s, rules);
      }
    }
    return window_reply(found, now, rules.size());
  }

  /// Counts once, in all of the keys or in none, unless it is only looked at. All windows end at
  /// one time.
  asked_check::verdict check(const subject& s, const std::vector<rule>& rules) {
    int refuses = -1;
    for (std::size_t i = rules.size(); i-- > 0;) {
      if (counts[s.keys[i]] + rules[i].cost > rules[i].limit) refuses = static_cast<int>(i);
    }
    std::size_t chosen = 0;
    for (std::size_t i = 0; i < rules.size(); ++i) {
      if (refuses < 0 && s.count > 0) counts[s.keys[i]] += rules[i].cost;
      const auto left = [&](std::size_t k) { return rules[k].limit - counts[s.keys[k]]; };
      if (left(i) < left(chosen)) chosen = i;
    }
    if (refuses >= 0) chosen = static_cast<std::size_t>(refuses);
    return {refuses<0, counts[s.keys[chosen]], rules[chosen].limit, rules.size()> 1 ? refuses : -1};
  }

  weir::test::command_reader reader_;
  std::map<std::string, std::deque<std::pair<std::string, asked_check*>>> on_the_way_;  // by key
  std::set<std::string> loaded_;
  bool has_text_ = false;  // the command is EVAL
  bool authenticated_ = false;
  bool selected_ = false;
};

}  // namespace weir::redis::test
