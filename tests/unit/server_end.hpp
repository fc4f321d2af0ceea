#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/fake_check.hpp"
#include "weir/error.hpp"

namespace weir::test {

class wire;

/// A check, and what the server has really made of it, whatever its caller is told.
struct asked_check {
  /// Where it is: with the client, in its write, with the server, or back with a reply.
  enum class place { client, write, server, replied };
  struct verdict {
    bool allowed;
    std::int64_t used, limit;
    int tier;
  };

  fake_check* check = nullptr;
  std::string key = {};
  const wire* by = nullptr;  // null: a cluster's core chooses
  error told{};              // if nothing goes wrong but what the scenario wants
  place where = place::client;
  bool was_written = false;
  bool has_asked = false;  // a node has sent it to another one by ASK
  int executed = 0;
  verdict right{};  // once executed
  error refusal{};  // what the server said last, if it did not execute it
  std::optional<detail::cancel_scope> cancelled = {};

  bool finished() const { return check->finished > 0; }
  bool is_told(error e) const { return finished() && (check->ec ? check->ec == e : e == error{}); }
  bool is_under_way() const { return where == place::write || where == place::server; }
  /// How it was when it ended stays known.
  void go_to(place p) {
    if (!finished()) where = p;
  }
};

/// The server's end.
class server_end {
 public:
  struct reply {
    std::string bytes;
    std::vector<asked_check*> whose = {};
    bool of_call = false;
  };

  /// A new connection. Not zero: it is refused.
  virtual error accept() = 0;
  virtual void read(std::string_view bytes) = 0;
  /// The connection has ended.
  virtual void end() {
    replies.clear();
    hangs_up = false;
  }

  std::deque<reply> replies;  // on their way
  bool is_up = true;          // reads
  bool hangs_up = false;      // once the replies are out
  bool turns_away = false;    // will not serve this connection
  std::string refuses;        // if not empty, what it answers to the next call, once
  bool turns_away_then = false;

 protected:
  std::string take_refusal() {
    turns_away = turns_away || turns_away_then;
    return std::exchange(refuses, {});
  }
  ~server_end() = default;
};

}  // namespace weir::test
