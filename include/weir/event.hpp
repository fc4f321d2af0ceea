#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "weir/decision.hpp"
#include "weir/detail/export.hpp"
#include "weir/error.hpp"

namespace weir {

/// What an event tells.
enum class event_kind : std::uint8_t {
  // These concern a connection of a store, which `address` names.
  /// the server has answered the greeting, and calls go there now
  connected,
  /// `cause` says why; an attempt to connect that fails is no event
  connection_lost,
  /// a Sentinel named another master, and that has answered; `connected` follows
  failed_over,
  /// calls got no answers; until one does, further calls fail at once
  circuit_opened,
  circuit_closed,

  // These concern a limiter or a gate, and what `resource` and `subject` name.
  /// a cool-down that this process did not know, or that is longer than it knew; `until` is its
  /// end, `origin` says who asked for it
  cool_down_begun,
  /// a cool-down was cut to limiter_options::max_cool_down, and ends at `until`
  cool_down_clamped,
  /// the holder of a lease should stop: see lease
  lease_lost,
};

/// The name of the enumerator, such as "connection_lost". Empty for other numbers.
[[nodiscard]] WEIR_EXPORT std::string_view to_string(event_kind what) noexcept;

/// The call that began a cool-down.
enum class cool_down_origin : std::uint8_t {
  elsewhere,  ///< another process or another limiter: an answer of the store told of it
  call,       ///< cool_down() of this limiter
  response,   ///< on_response() of this limiter
};

/// Something that happened to a store or a limiter. What does not concern its kind is empty.
struct event {
  event_kind what = event_kind::connected;
  /// connection_lost: `closed_by_peer`, `no_reply` (the server was silent), `protocol_error`,
  /// `read_only` (it has become a replica), or what its greeting said, such as
  /// `authentication_failed`.
  error cause{};
  cool_down_origin origin = cool_down_origin::elsewhere;
  std::string address = {};  ///< "host:port", or the path of a Unix socket
  std::string resource = {};
  std::string subject = {};
  time_point until{};  ///< by the store's clock
  time_point at{};     ///< by this process's clock
};

/// A function that gets events: redis_options::on_event, memcached_options::on_event,
/// memory_options::on_event and limiter_options::on_event.
///
/// The library posts each call to the store's executor: it runs there like a completion handler,
/// outside all locks, and may call any function of the library. It must not block. An exception
/// leaves io_context::run(), as that of a handler does. With several threads in the executor's
/// context, calls may run at the same time and in another order. When the context is destroyed,
/// events that are on their way are dropped.
///
/// An event is told once: those of a limiter go to the limiter's own function, or, if it has none,
/// to that of its store.
using event_handler = std::function<void(const event&)>;

}  // namespace weir
