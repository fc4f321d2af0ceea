#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "policy/kernel.hpp"
#include "redis/resp/resp_reader.hpp"

namespace weir::redis {

/// The arguments of the script for checks of one key each, before the counts.
template <class Kernel>
policies::script_arguments record_arguments(const Kernel& kernel, std::int64_t cost) {
  if constexpr (Kernel::kind == policies::kernel_kind::bucket) {
    return kernel.record_arguments(cost);
  } else if constexpr (policies::is_policy(Kernel::kind)) {
    const std::optional<policies::plain_constants> packed = kernel.plain_arguments(cost);
    return packed ? policies::script_arguments(*packed) : kernel.arguments(cost).behind_zero();
  } else {
    return kernel.arguments(cost);
  }
}

/// Reads the clock from the front of a common path's reply: seconds and microseconds, each with a
/// space behind it. -1 if it is not well-formed.
std::int64_t take_time(std::string_view& text) noexcept;

/// Moves integers from the front of `values` to all of `to`. False if there are not enough.
bool take_integers(std::span<const reply_value>& values, std::span<std::int64_t> to) noexcept;

/// Reads a reply in which full kernels have answered for some checks: an array of the clock's time
/// and, for each check of one tier or several, the common path's text or `width` numbers.
template <class ReadPlain>
bool read_mixed(const reply_view& reply, std::size_t width, std::span<std::int64_t> numbers,
                const ReadPlain& read_plain) {
  if (reply.root().type != reply_type::array) return false;
  std::span<const reply_value> values = reply.values().subspan(1);
  if (!take_integers(values, numbers.first(1))) return false;
  for (auto fields = numbers.subspan(1); !fields.empty(); fields = fields.subspan(width)) {
    if (!values.empty() && values[0].type == reply_type::bulk_string) {
      std::string_view text = values[0].text;
      if (!read_plain(text, fields.first(width)) || !text.empty()) return false;
      values = values.subspan(1);
    } else if (!take_integers(values, fields.first(width))) {
      return false;
    }
  }
  return values.empty();
}

/// Reads the reply of the kernel's own script. `numbers` then holds the clock's time and the fields
/// of each key, for which it has room. A common path that has answered for all keys replies with a
/// text.
template <class Kernel>
bool read_found(const Kernel& kernel, const reply_view& reply, std::span<std::int64_t> numbers) {
  if constexpr (!policies::is_policy(Kernel::kind)) {
    return reply.integers(numbers);
  } else {
    const auto read_plain = [&](std::string_view& text, std::span<std::int64_t> fields) {
      return kernel.read_plain(text, fields);
    };
    constexpr std::size_t width = Kernel::reply_width;
    if (reply.root().type != reply_type::bulk_string) {
      return read_mixed(reply, width, numbers, read_plain);
    }
    std::string_view text = reply.root().text;
    numbers[0] = take_time(text);
    for (auto fields = numbers.subspan(1); !fields.empty(); fields = fields.subspan(width)) {
      if (!read_plain(text, fields.first(width))) return false;
    }
    return text.empty();
  }
}

}  // namespace weir::redis
