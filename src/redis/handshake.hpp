#pragma once

#include <array>
#include <string>
#include <string_view>

#include "redis/resp/resp_reader.hpp"
#include "redis/script/scripts.hpp"
#include "weir/error.hpp"
#include "weir/redis_options.hpp"

namespace weir::redis {

/// Appends HELLO 3, with AUTH if there is a password, and SETNAME if there is a name.
void write_hello(std::string& out, const redis_credentials& login, std::string_view client_name);

/// The first commands on a new connection, one pipeline per round: HELLO 3 with AUTH and SETNAME,
/// SELECT, CLIENT SETINFO (which may fail); the same in RESP2 if the server or proxy does not know
/// HELLO; then SCRIPT EXISTS, and ROLE if a Sentinel named the server. The first call that needs a
/// script carries its text; otherwise each client of a reconnecting fleet would send all of them:
/// 140 KB and more.
///
/// It has no sockets: write output(), then feed the replies until it is no longer `going`; after
/// `again`, write the new output(). The output of each round is kept to the end, because replies
/// may come before its write has ended.
class handshake {
 public:
  enum class step { going, again, done, failed };

  /// `options` must outlive this.
  explicit handshake(const redis_options& options);
  handshake(const redis_options& options, redis_credentials login);

  const std::string& output() const;
  step on_reply(const reply_view& reply);

  /// The error of a failed handshake.
  error failure() const noexcept { return failure_; }

  /// When done: the scripts that the server has; all of them if it refused to tell.
  const script_set& known_scripts() const noexcept { return known_scripts_; }

 private:
  enum class round { resp3, resp2, scripts };
  static constexpr std::size_t courtesy_count = 2;
  void begin(round r);
  bool read_known_scripts(const reply_view& reply);
  step on_last_round(const reply_view& reply);

  const redis_options& options_;
  const redis_credentials login_;
  round round_ = round::resp3;
  std::array<std::string, 3> outputs_;  // one per round
  std::size_t expected_ = 0;
  std::size_t received_ = 0;
  std::size_t select_ = 0;      // the index of SELECT's reply; beyond the last without SELECT
  std::size_t courtesies_ = 0;  // the index of the first reply that may be an error
  bool hello_unknown_ = false;
  error failure_{};
  std::size_t asked_scripts_ = 0;  // SCRIPT EXISTS names so many of the first scripts
  script_set known_scripts_;
};

}  // namespace weir::redis
