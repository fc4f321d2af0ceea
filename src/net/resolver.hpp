#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "net/strand.hpp"

namespace weir::net {

/// Resolves a host name. The system's resolver cannot be interrupted, and Asio has one thread for
/// all names of a context, so a hanging name server would block every store. Here each look-up has
/// a detached thread that owns all data it uses; each resolver has at most one. A numeric address
/// needs no thread.
///
/// After leave() the look-up continues, and the next ask() gets its answer. So a name server slower
/// than connect_timeout is waited for over several attempts.
///
/// All calls and reports are on one strand. The object, and its context, may be destroyed while a
/// look-up hangs.
class resolver {
 public:
  using endpoints = std::vector<boost::asio::generic::stream_protocol::endpoint>;
  using report = std::function<void(endpoints&& found)>;

  explicit resolver(const strand& s) : strand_(s) {}
  ~resolver();
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;

  /// Reports exactly once, never inside the call; with no endpoints if the name is unknown. One
  /// ask() at a time. `alive` keeps this object while a report is posted; a look-up in progress
  /// keeps nothing alive. The report is stored in this object and must not own it.
  void ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
           report r);

  /// Ends a pending ask(): posts its report with no endpoints. `alive` keeps this object until
  /// then.
  void leave(const std::shared_ptr<void>& alive);

 private:
  struct question;

  static void look_up(const std::shared_ptr<question>& q);
  void post_answer(endpoints&& found, const std::shared_ptr<void>& alive);
  void answer(endpoints&& found);
  void forget_question();

  strand strand_;
  report report_;                       // of the pending ask()
  std::shared_ptr<question> question_;  // set while a look-up is in progress
  endpoints unheard_;                   // an answer that came after leave()
};

}  // namespace weir::net
