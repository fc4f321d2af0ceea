#pragma once

#include <array>
#include <string>

#include "redis/resp_reader.hpp"
#include "redis/scripts.hpp"
#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// What is said on a new connection before anything else, a pipeline a round: HELLO 3 with AUTH and
/// SETNAME, SELECT, CLIENT SETINFO (whose refusal does not matter); the same in RESP2 for a server
/// or proxy that does not know HELLO; and SCRIPT EXISTS. The scripts themselves are loaded by the
/// first calls that need them: a fleet that reconnects would send the server a hundred kilobytes
/// for each client otherwise.
///
/// No sockets: write output(), then feed the replies until it is no longer `going`; after `again`,
/// write the new output(). The output of each round stays where it is until the end: the replies
/// may come before its write is done.
class handshake {
 public:
  enum class step { going, again, done, failed };

  explicit handshake(const redis_options& options);

  const std::string& output() const;
  step on_reply(const reply_view& reply);

  /// Why it failed.
  error failure() const noexcept { return failure_; }

  /// Once done: the scripts that the server has. All of them if it did not let us ask.
  const script_set& known_scripts() const noexcept { return known_scripts_; }

 private:
  enum class round { resp3, resp2, scripts };
  static constexpr std::size_t courtesy_count = 2;
  void begin(round r);
  bool read_known_scripts(const reply_view& reply);

  const redis_options& options_;
  round round_ = round::resp3;
  std::array<std::string, 3> outputs_;  // of each round
  std::size_t expected_ = 0;
  std::size_t received_ = 0;
  std::size_t select_ = 0;      // which reply is that to SELECT; beyond the last if there is none
  std::size_t courtesies_ = 0;  // where the replies begin that may be refusals
  bool hello_unknown_ = false;
  error failure_{};
  script_set known_scripts_;
};

}  // namespace weir::redis
