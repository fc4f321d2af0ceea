#pragma once

#include <cstdint>
#include <memory>
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
/// deletion of keys, or the loading of a script, for which nobody waits.
struct call {
  enum class purpose : std::uint8_t { record, fetch, reset, load_script };

  purpose what = purpose::load_script;
  std::int64_t cost = 0;
  std::shared_ptr<const detail::limiter_core> limiter;  // keeps the kernel for the reply, even when all have given up
  std::vector<call_key> keys;
  std::size_t end = 0;  // where it ends in the write that carries it
};

/// Appends the command to `out`. `scratch` is for keys. load_script is not encoded here: see write_load().
void write_call(std::string& out, const call& c, std::string& scratch);

/// Appends the command that loads the script of that index in scripts().
void write_load(std::string& out, std::size_t script);

/// What became of a call.
enum class reply_outcome : std::uint8_t {
  answered,        ///< every check that still waits has its result
  script_missing,  ///< nothing ran: the checks may be sent again
};

/// Fills in the results of the checks that still wait, without unlinking them.
reply_outcome read_reply(call& c, const reply_view& reply, std::vector<std::int64_t>& scratch);

}  // namespace weir::redis
