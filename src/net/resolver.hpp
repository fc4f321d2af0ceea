#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/strand.hpp>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weir::net {

/// The addresses of a name. The system's resolver cannot be interrupted, and Asio has one thread
/// for all names of a context: a name server that hangs would block every store. So each look-up
/// has a detached thread, at most one at a time for each object of this class, and whatever that
/// thread uses belongs to the look-up. An address that is written as a number needs no thread.
///
/// The asker may leave; the next one to ask gets the answer that is still on its way. A name server
/// slower than connect_timeout is waited for over several attempts, then.
///
/// Used on one strand, which the reports come on too. May be destroyed while a look-up hangs, also
/// with its context.
class resolver {
 public:
  using strand = boost::asio::strand<boost::asio::any_io_executor>;
  using endpoints = std::vector<boost::asio::generic::stream_protocol::endpoint>;
  using report = std::function<void(endpoints&& found)>;

  explicit resolver(const strand& s) : strand_(s) {}
  ~resolver();
  resolver(const resolver&) = delete;
  resolver& operator=(const resolver&) = delete;

  /// Reports exactly once, never inside the call; nothing found if the name is not known. One at a
  /// time. `alive` keeps this object while a report is posted; a look-up under way keeps nothing.
  /// The report must not keep this object either: it lies in here.
  void ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
           report r);

  /// The asker is told soon that nothing was found; `alive` keeps this object until then.
  void leave(const std::shared_ptr<void>& alive);

 private:
  struct question;

  static void look_up(const std::shared_ptr<question>& q);
  void post_answer(endpoints&& found, const std::shared_ptr<void>& alive);
  void answer(endpoints&& found);
  void forget_question();

  strand strand_;
  report report_;                       // of the one who waits
  std::shared_ptr<question> question_;  // not null: a look-up is under way
  endpoints unheard_;                   // what it found when nobody waited
};

}  // namespace weir::net
