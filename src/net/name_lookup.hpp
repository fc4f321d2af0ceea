#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace weir::net {

/// The addresses of a name. The system's resolver cannot be interrupted: so whoever asks may leave, and the next one to ask
/// gets the answer that is still on its way. A name server slower than connect_timeout is waited for over several attempts,
/// then.
///
/// Used on one strand, which the reports come on too.
class name_lookup {
 public:
  using strand = boost::asio::strand<boost::asio::any_io_executor>;
  using endpoints = std::vector<boost::asio::generic::stream_protocol::endpoint>;
  using report = std::function<void(endpoints&& found)>;

  explicit name_lookup(const strand& s) : strand_(s), resolver_(s) {}

  /// Reports exactly once, never inside the call; nothing found if the name is not known. One at a time. `alive` keeps
  /// this object for as long as an answer may come. The report must not: it lies in here, and would keep what it is a
  /// part of.
  void ask(const std::string& host, std::uint16_t port, const std::shared_ptr<void>& alive,
           report r);

  /// Whoever has asked is told soon that nothing was found; `alive` keeps this object until then.
  void leave(const std::shared_ptr<void>& alive);

 private:
  strand strand_;
  boost::asio::ip::basic_resolver<boost::asio::ip::tcp, strand> resolver_;
  report report_;        // of the one who waits
  bool asking_ = false;  // the resolver
};

}  // namespace weir::net
