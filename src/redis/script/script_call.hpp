#pragma once

#include <boost/container/small_vector.hpp>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <span>

#include "base/prefetch.hpp"
#include "check/flight.hpp"
#include "check/limiter_spec.hpp"
#include "policy/tier_set.hpp"
#include "redis/script/scripts.hpp"

namespace weir::redis {

/// The coalesced checks of one key, or of one set of keys. They are answered in order, as if each
/// had been sent alone.
struct call_key {
  detail::check_list checks;  // a check that ends early leaves the list; `count` keeps its place
  std::uint32_t count = 0;
};

/// Prefetches the first check, which has left the caches if many are under way.
inline void prefetch_checks(const call_key& key) noexcept {
  if (!key.checks.empty()) detail::prefetch(key.checks.front());
}

/// One tier of a call: its kernel and cost. Several tiers pass all or nothing.
struct call_tier {
  policies::kernel kernel;
  std::int64_t cost;  // settle, give_back: see policies::settle_all
  friend bool operator==(const call_tier&, const call_tier&) = default;
};

/// What a settlement says beside its keys and tiers; see policy/lua/settle.lua.
struct settlement_terms {
  policies::tickets tickets;
  bool lowers = false;                               // to what a vendor says
  policies::instant remember = policies::no_marker;  // the expiry of the marker
};

/// The notes about a command, all of them plain values.
struct call_notes {
  /// The connection's own commands have no checks, and no kind.
  enum class command : std::uint8_t { ping, asking, slots, request };
  static constexpr std::size_t unbounded = static_cast<std::size_t>(-1);

  command what = command::ping;
  detail::check_kind kind{};  // of the checks of a request, and what follows from it
  detail::request_traits traits;
  bool asks = false;            // goes right behind ASKING
  bool has_text = false;        // carries the text of its script
  bool was_put_off = false;     // `sent` was moved on, because the process stood still
  std::size_t script = 0;       // of a request, except a reset: the index in scripts()
  std::uint32_t texts = 0;      // how often the script's text had been sent, with this call
  std::size_t check_count = 0;  // the sum of all counts
  std::int64_t max_wait = 0;    // acquire: microseconds
  std::size_t end = 0;          // the offset of its end in the write
  std::size_t number = 0;       // among the calls of its write
  std::size_t most_keys = 0;    // in all tiers together; see call_size
  std::size_t most_checks = unbounded;
  std::chrono::steady_clock::time_point sent{};
  // Set by the reply: how many keys were answered, and how many of these were costly (see
  // call_size). Zero keys: the reply does not tell.
  std::size_t answered_keys = 0, costly_keys = 0;
};

/// One command and the checks that wait for its reply: a script call for some subjects of one
/// limiter (or one set of limiters) with one cost, a deletion of keys, or a command of the
/// connection itself, which has no checks.
struct script_call : call_notes {
  static constexpr std::size_t usual_keys = 64;

  using key_list = boost::container::small_vector<call_key, 1>;

  // Copies, because a call that waits for its reply must not keep limiters alive: they hold the
  // store, which must end with its last handle.
  boost::container::small_vector<call_tier, 1> tiers;
  key_list keys;
  std::unique_ptr<const settlement_terms> settling;  // of a settlement

  /// Makes this a new call that keeps its memory, if that is not much.
  void renew() noexcept {
    static_cast<call_notes&>(*this) = {};
    tiers.clear();
    keys.clear();
    if (keys.capacity() > 2 * usual_keys) {  // shrink_to_fit() would lose the room in the call, too
      std::destroy_at(&keys);
      std::construct_at(&keys);
    }
    settling.reset();
  }

  bool is_record() const noexcept { return kind == detail::check_kind::record; }
  bool settles() const noexcept { return kind == detail::check_kind::settle; }
  /// False for a reset, which deletes keys.
  bool has_script() const noexcept { return kind != detail::check_kind::reset; }

  /// The number of keys that the server visits, 0 without checks. Checks that the script runs each
  /// on its own count separately, as requests of acquire() do.
  std::size_t weight() const noexcept {
    return tiers.size() * (most_checks != unbounded ? check_count : keys.size());
  }
};

/// Calls move from list to list: they are made for one write, wait for their replies, and are used
/// again.
using call_list = std::list<script_call>;

/// The index in scripts() of a request's script (not of a reset), or no_script.
std::size_t script_of(const script_call& c) noexcept;

/// How many numbers a script replies for one key, or for the keys of one check.
std::size_t reply_width(const call_tier& t) noexcept;
std::size_t reply_width(std::span<const call_tier> tiers) noexcept;

}  // namespace weir::redis
