#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "check_list.hpp"
#include "limiter_core.hpp"
#include "redis/resp_reader.hpp"

namespace weir::redis {

/// The checks of one key that travel together. They are answered one by one in order, as if each had been sent alone.
struct call_key {
  detail::check_list checks;  // a check that gives up leaves the list; its place stays counted
  std::uint32_t count = 0;

  call_key() = default;
  call_key(call_key&& other) noexcept : count(other.count) { checks.swap(other.checks); }
  call_key& operator=(call_key&&) = delete;
};

/// One command on the wire, and who waits for its reply: a script call for some keys of one limiter with one cost, a
/// deletion of keys, or upkeep (loading a script, a ping), for which nobody waits.
struct call {
  enum class purpose : std::uint8_t { record, fetch, reset, upkeep };

  purpose what = purpose::upkeep;
  std::int64_t cost = 0;
  // Only while it is encoded, when its checks keep the limiter alive. A reply that is due must not: the limiter holds the
  // store, and the store ends with its last handle, also when all callers have given up.
  const detail::limiter_core* limiter = nullptr;
  std::optional<policies::kernel> kernel;  // for the reply; none for upkeep
  std::vector<call_key> keys;
  std::size_t end = 0;  // where it ends in the write that carries it
};

/// Appends a record, fetch or reset to `out`. `scratch` is for keys.
void write_call(std::string& out, const call& c, std::string& scratch);

/// Appends the command that loads the script of that index in scripts().
void write_load(std::string& out, std::size_t script);

void write_ping(std::string& out);

/// Fills in the answers of the checks that still wait, without unlinking them, or the error of a key's own. Returns what
/// the server said against the call as a whole, zero for nothing.
error read_reply(call& c, const reply_view& reply, std::vector<std::int64_t>& scratch);

}  // namespace weir::redis
