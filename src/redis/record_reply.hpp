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

/// Reads the reply of the kernel's own script. `numbers`, which has room for one and as many for
/// each key as the kernel's restore() takes, then holds the clock's time and each key's fields. The
/// script replies with a text, if its common path has answered for all keys; else with an array of
/// the time and, for each key, that path's text or an array of fields; or all in one flat array.
template <class Kernel>
bool read_found(const Kernel& kernel, const reply_view& reply, std::span<std::int64_t> numbers) {
  constexpr std::size_t width = Kernel::reply_width;
  if constexpr (Kernel::has_common_path) {
    std::span<std::int64_t> fields = numbers.subspan(1);
    const auto take = [&](std::string_view& text) {
      const bool taken = kernel.read_plain(text, fields.first(width));
      fields = fields.subspan(width);
      return taken;
    };
    if (reply.root().type == reply_type::bulk_string) {
      std::string_view text = reply.root().text;
      numbers[0] = take_time(text);
      while (!fields.empty()) {
        if (!take(text)) return false;
      }
      return text.empty();
    }
    const std::size_t keys = fields.size() / width;
    if (reply.root().type == reply_type::array &&
        reply.root().integer == static_cast<std::int64_t>(1 + keys) &&
        reply.values()[1].type == reply_type::integer &&
        reply.values()[2].type != reply_type::integer) {
      std::span<const reply_value> values = reply.values().subspan(1);
      numbers[0] = values[0].integer;
      values = values.subspan(1);
      while (!fields.empty()) {
        std::string_view text = values[0].text;
        if (values[0].type == reply_type::bulk_string) {
          if (!take(text) || !text.empty()) return false;
          values = values.subspan(1);
          continue;
        }
        if (values[0].type != reply_type::array || values[0].integer != width) return false;
        values = values.subspan(1);
        for (std::size_t i = 0; i < width; ++i) {
          if (values[i].type != reply_type::integer) return false;
          fields[i] = values[i].integer;
        }
        values = values.subspan(width);
        fields = fields.subspan(width);
      }
      return true;
    }
  }
  return reply.integers(numbers);
}

}  // namespace weir::redis
