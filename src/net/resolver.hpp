#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/strand.hpp"

namespace weir::net {

/// Resolves host names. The system's resolver cannot be interrupted, and Asio has one thread for
/// all names of a context, so a hanging name server would block every store. Here each look-up has
/// a detached thread that owns all data it uses. A numeric address needs no thread.
///
/// After leave() the look-up continues. The next ask() for the same name joins it, or gets its
/// answer, if that is less than a minute old. So a name server slower than connect_timeout is
/// waited for over several attempts. Another name gets a look-up of its own.
///
/// Sentinels may announce any number of names, and each look-up may hang until the system's
/// resolver gives up. So a resolver has at most one thread for each name, and at most max_names
/// threads. While that many look-ups are in progress, ask() for a further name reports no
/// endpoints.
///
/// All calls and reports are on one strand. The object, and its context, may be destroyed while
/// look-ups hang.
class resolver {
 public:
  using endpoints = std::vector<boost::asio::generic::stream_protocol::endpoint>;
  using report = std::function<void(endpoints&& found)>;

  static constexpr std::size_t max_names = 16;

  explicit resolver(const strand& s) : strand_(s) {}
  ~resolver();
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;

  /// Reports exactly once, never inside the call; with no endpoints if the name is unknown. One
  /// ask() at a time. `alive`, the same object in every call, keeps this object while a report is
  /// posted; a look-up in progress keeps nothing alive. The report is stored in this object and
  /// must not own it.
  void ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
           report r);

  /// Ends a pending ask(): posts its report with no endpoints. `alive` keeps this object until
  /// then.
  void leave(const std::shared_ptr<void>& alive);

 private:
  struct question;
  using addresses = std::vector<boost::asio::ip::tcp::endpoint>;  // the ports are 0

  static addresses addresses_of(const std::string& host);
  static void look_up(const std::shared_ptr<question>& q);
  static void forget(question& q);
  void start(const std::shared_ptr<void>& alive);
  bool make_room();
  void note_reply(question& q, addresses&& found);
  void post_answer(addresses&& found, const std::shared_ptr<void>& alive);
  void answer(const addresses& found);

  strand strand_;
  report report_;           // of the pending ask()
  std::string host_;        // of the last ask()
  std::uint16_t port_ = 0;  // of the last ask()
  // In progress, or answered after leave(); one for each name.
  std::vector<std::shared_ptr<question>> questions_;
};

}  // namespace weir::net
