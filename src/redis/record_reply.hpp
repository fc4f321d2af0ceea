#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "policy/kernel.hpp"
#include "redis/resp_reader.hpp"

namespace weir::redis {

/// The arguments of the kernel's own script (scripts()[kernel.index()]), before the counts.
template <class Kernel>
policies::script_arguments record_arguments(const Kernel& kernel, std::int64_t cost) {
  if constexpr (Kernel::has_common_path) {
    return kernel.record_arguments(cost);
  } else {
    return kernel.arguments(cost);
  }
}

/// Reads the clock from the front of a common path's reply: seconds and microseconds, each with a
/// space behind it. -1 if these are none.
std::int64_t take_time(std::string_view& text) noexcept;

/// Reads a common path's reply in which the full kernel has answered for some keys: an array of the
/// clock's time and, for each key, the common path's text or an array of fields.
template <class Kernel>
bool read_mixed(const Kernel& kernel, const reply_view& reply, std::span<std::int64_t> numbers) {
  constexpr std::size_t width = Kernel::reply_width;
  std::span<const reply_value> values = reply.values();
  std::span<std::int64_t> fields = numbers.subspan(1);
  const auto keys = static_cast<std::int64_t>(fields.size() / width);
  if (values[0].type != reply_type::array || values[0].integer != 1 + keys ||
      values[1].type != reply_type::integer) {
    return false;
  }
  numbers[0] = values[1].integer;
  values = values.subspan(2);
  for (; !fields.empty(); fields = fields.subspan(width)) {
    const reply_value& key = values[0];
    values = values.subspan(1);
    if (key.type == reply_type::bulk_string) {
      std::string_view text = key.text;
      if (!kernel.read_plain(text, fields.first(width)) || !text.empty()) return false;
      continue;
    }
    if (key.type != reply_type::array || key.integer != width) return false;
    for (std::size_t i = 0; i < width; ++i) {
      if (values[i].type != reply_type::integer) return false;
      fields[i] = values[i].integer;
    }
    values = values.subspan(width);
  }
  return true;
}

/// Reads the reply of the kernel's own script. `numbers`, which has room for one and as many for
/// each key as the kernel's restore() takes, then holds the clock's time and each key's fields. A
/// common path that has answered for all keys replies with a text.
template <class Kernel>
bool read_found(const Kernel& kernel, const reply_view& reply, std::span<std::int64_t> numbers) {
  if constexpr (Kernel::has_common_path) {
    if (reply.root().type != reply_type::bulk_string) return read_mixed(kernel, reply, numbers);
    std::string_view text = reply.root().text;
    numbers[0] = take_time(text);
    constexpr std::size_t width = Kernel::reply_width;
    for (auto fields = numbers.subspan(1); !fields.empty(); fields = fields.subspan(width)) {
      if (!kernel.read_plain(text, fields.first(width))) return false;
    }
    return text.empty();
  } else {
    return reply.integers(numbers);
  }
}

}  // namespace weir::redis
