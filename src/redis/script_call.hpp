#pragma once

#include <boost/container/small_vector.hpp>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "check/check_list.hpp"
#include "check/limiter_spec.hpp"
#include "policy/tier_set.hpp"
#include "redis/resp_reader.hpp"
#include "redis/scripts.hpp"

namespace weir::redis {

/// The checks of one key, or of the same keys, that travel together. They are answered one by one
/// in order, as if each had been sent alone.
struct call_key {
  detail::check_list checks;  // a check that gives up leaves the list; its place stays counted
  std::uint32_t count = 0;

  call_key() = default;
  call_key(call_key&& other) noexcept : count(other.count) { checks.swap(other.checks); }
  call_key& operator=(call_key&&) = delete;
};

/// What a call asks of each of its subjects: one kernel, or several that pass all or nothing.
struct call_tier {
  policies::kernel kernel;
  std::int64_t cost;  // settle, give_back: as policies::settle_all
};

/// One command on the wire, and who waits for its reply: a script call for some subjects of one
/// limiter (or one set of limiters) with one cost, a deletion of keys, or a script to load or a
/// ping, for which nobody waits.
struct script_call {
  enum class purpose : std::uint8_t {
    record,
    fetch,
    reset,
    cool_down,
    acquire,
    give_back,
    settle,
    lower,
    load,
    upkeep,
  };

  purpose what = purpose::upkeep;
  // Copies, not the limiters: a reply that is due must not keep them alive. A limiter holds the
  // store, and the store ends with its last handle, also when all callers have given up.
  boost::container::small_vector<call_tier, 1> tiers;
  std::vector<call_key> keys;
  std::size_t places = 0;          // the counts of all keys
  std::int64_t max_wait = 0;       // acquire: microseconds
  policies::tickets tickets{};     // give_back, settle
  policies::instant remember = 0;  // until when it is remembered that it was done; 0: it is not
  std::size_t end = 0;             // where it ends in the write that carries it
  std::uint32_t loads = 0;         // how often its script had been loaded before it
  std::chrono::steady_clock::time_point sent{};
  bool sent_alone = false;  // no other call was under way

  static constexpr bool settles(purpose what) noexcept {
    return what == purpose::give_back || what == purpose::settle || what == purpose::lower;
  }
  bool settles() const noexcept { return settles(what); }

  /// How many keys it makes the server look at, those of upkeep aside. Each turn is looked for by
  /// itself.
  std::size_t weight() const noexcept {
    return tiers.size() * (what == purpose::acquire ? places : keys.size());
  }

  /// Which of scripts() it runs.
  std::size_t script() const noexcept {
    if (what == purpose::acquire) return turns;
    if (settles()) return settlement;
    return tiers.size() == 1 ? tiers.front().kernel.index() : all_or_nothing;
  }
};

/// Appends a record, fetch or reset to `out`. `scratch` is for keys.
void write_call(std::string& out, const script_call& c, std::string& scratch);

/// Appends the command that loads the script of that index in scripts().
void write_load(std::string& out, std::size_t script);

void write_ping(std::string& out);

/// Fills in the answers of the checks that still wait, without unlinking them, or the error of a
/// key's own. Returns what the server said against the call as a whole, zero for nothing.
error read_reply(script_call& c, const reply_view& reply, std::vector<std::int64_t>& scratch);

}  // namespace weir::redis
