#pragma once

#include <array>
#include <string>

#include "redis/resp_reader.hpp"
#include "weir/error.hpp"
#include "weir/redis_store.hpp"

namespace weir::redis {

/// What is said on a new connection before anything else, a pipeline a round: HELLO 3 with AUTH and SETNAME, SELECT,
/// CLIENT SETINFO (whose refusal does not matter); the same in RESP2 for a server or proxy that does not know HELLO; and
/// SCRIPT LOAD of every script.
///
/// No sockets: write output(), then feed the replies until it is no longer `going`; after `again`, write the new output().
/// The output of each round stays where it is until the end: the replies may come before its write is done.
class handshake {
 public:
  enum class step { going, again, done, failed };

  explicit handshake(const redis_options& options);

  const std::string& output() const;
  step on_reply(const reply_view& reply);

  /// Why it failed.
  error failure() const noexcept { return failure_; }

 private:
  enum class round { resp3, resp2, scripts };
  static constexpr std::size_t courtesy_count = 2;
  void begin(round r);

  const redis_options& options_;
  round round_ = round::resp3;
  std::array<std::string, 2> outputs_;  // of each round but the scripts', which are always the same
  std::size_t expected_ = 0;
  std::size_t received_ = 0;
  std::size_t select_ = 0;      // which reply is that to SELECT; beyond the last if there is none
  std::size_t courtesies_ = 0;  // where the replies begin that may be refusals
  bool hello_unknown_ = false;
  error failure_{};
};

}  // namespace weir::redis
