#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <variant>

#include "weir/error.hpp"

namespace weir::detail {

/// The states and actions of a connection, for any protocol.
struct connection_states {
  enum class state : std::uint8_t {
    pausing,   ///< no connection; the next attempt comes at a set time
    opening,   ///< the driver resolves, connects and secures
    greeting,  ///< the server tells what it is
    ready,
    draining,  ///< given up; closing, until all operations have reported
    stopped,   ///< closed for good
  };
  using time = std::chrono::steady_clock::time_point;

  // What each state notes.
  struct pausing {};
  struct opening {};
  struct greeting {
    bool heard = false;  ///< the server has sent something
    bool wrote = false;  ///< nothing is to be written at present
  };
  struct ready {
    time since{};
    time last_answer{};    ///< when the last whole reply that was due came
    time last_write{};     ///< when the last write began
    time waiting_since{};  ///< since when a reply has been due all the time
  };
  struct draining {
    error reason{};              ///< for the checks that were sent
    std::optional<ready> was{};  ///< the connection, if it was ready
    error cause{};               ///< for the history
    std::size_t sent = 0;        ///< how many bytes of the last write were sent
    bool told = false;           ///< the driver knows that it has to close
  };
  struct stopped {};
  using phase = std::variant<pausing, opening, greeting, ready, draining, stopped>;

  /// The operations that the driver has started and not reported yet.
  struct under_way {
    bool opening = false, reading = false, writing = false;
    bool any() const noexcept { return opening || reading || writing; }
  };
  enum class closing : std::uint8_t {
    no,
    give_backs_only,  ///< close(): no other checks are taken
    when_idle,        ///< stop_when_idle(): it stops as soon as no check is pending
    done,             ///< it stops, or has stopped
  };

  /// The operations that the driver must start now.
  struct actions {
    bool open = false;
    /// With open: try another address of the name first, because the last one has not served.
    bool elsewhere = false;
    bool read = false;       ///< into room()
    bool close = false;      ///< end all operations; comes with no other action
    std::string_view write;  ///< if not empty; valid until written()
    /// Until this time, poll for replies instead of sleeping. Holds until the next actions.
    time poll_until = time::min();
  };
};

}  // namespace weir::detail
