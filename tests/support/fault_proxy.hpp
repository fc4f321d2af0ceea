#pragma once

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "support/random_source.hpp"
#include "support/redis_server.hpp"

namespace weir::test {

/// One direction of a connection: what the client says, or what the server answers.
enum class way : std::uint8_t { requests, replies };

/// What a proxy does to one direction of one connection, after so many more bytes have passed.
struct fault {
  enum class kind : std::uint8_t {
    none,
    delay,      ///< what follows waits for `pause`, in its order
    stall,      ///< nothing more is taken from the sender until lift(): its socket fills up
    throttle,   ///< `rate` bytes per second from here on
    cut,        ///< both ends are closed, in order (FIN)
    reset,      ///< both ends are broken off (RST)
    half_open,  ///< both directions are swallowed from here on; the connections stay
    truncate,   ///< this direction is swallowed from here on, in the middle of a reply if need be
    garbage,    ///< bytes that are no RESP come in between; replies, or whole requests
    stray,      ///< a well-formed reply without a request comes in between
  };
  static constexpr std::size_t kinds = 10;

  kind what = kind::none;
  test::way way = way::replies;
  std::size_t after = 0;  ///< bytes; 0 is now, even if nothing passes
  std::chrono::microseconds pause{0};
  std::size_t rate = 0;   ///< bytes per second
  std::size_t again = 0;  ///< if not 0: once more after so many bytes, and so on
};

const char* to_string(fault::kind k) noexcept;

/// Any of them, within `reach` bytes of replies or eight times as many of requests, which are
/// longer; pauses of up to 5 ms, rates that slow down and do not stop.
fault random_fault(random_source& random, std::int64_t reach);

/// A TCP proxy on a port of a loopback address in front of a real server. Without faults it passes
/// everything on. It lives on the test's io_context and is used from its thread alone.
class fault_proxy {
 public:
  fault_proxy(boost::asio::io_context& io, const redis_server& target,
              const char* address = "127.0.0.1");
  ~fault_proxy();
  fault_proxy(const fault_proxy&) = delete;
  fault_proxy& operator=(const fault_proxy&) = delete;

  int port() const;

  /// Where connections go from now on. Those that are open stay.
  void aim_at(const redis_server& target);

  /// How long every byte is on its way from now on, in each direction.
  void set_distance(std::chrono::microseconds each_way);

  /// What each new connection meets; the argument counts them from 0. lift() ends it.
  void plan(std::function<std::vector<fault>(std::size_t)> for_connection);

  /// On every connection that is open. Takes the place of one that waits for its turn in the same
  /// direction.
  void strike(const fault& f);

  /// New connections are accepted and broken off at once; or no longer.
  void refuse(bool all);

  /// The end of all faults: what was held up goes on. What was swallowed is lost, and such a
  /// connection remains dead.
  void lift();
  /// Only what holds up one direction.
  void lift(way w);

  /// What came about so far.
  struct tally {
    std::size_t accepted = 0;
    std::size_t refused = 0;  ///< of those accepted
    std::array<std::size_t, fault::kinds> faults{};
    std::array<std::size_t, 2> bytes{};  ///< passed on, by direction

    std::size_t of(fault::kind k) const { return faults[static_cast<std::size_t>(k)]; }
    std::size_t all_faults() const;
  };
  const tally& counts() const;
  std::size_t open_connections() const;

 private:
  class link;
  struct core;
  std::shared_ptr<core> core_;
};

}  // namespace weir::test
