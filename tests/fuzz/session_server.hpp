#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "policy/kernel.hpp"
#include "policy/tier_set.hpp"
#include "redis/resp/resp_writer.hpp"
#include "redis/script/scripts.hpp"
#include "support/command_reader.hpp"
#include "support/script_names.hpp"

namespace weir::fuzz {

using kernel = weir::policies::kernel;

inline constexpr auto reply_widths = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array{std::variant_alternative_t<I, kernel>::reply_width...};
}(std::make_index_sequence<weir::redis::full_kernels>());

/// How many bytes a common path replies for a key; 0 for a kernel that has none.
template <class Kernel>
inline constexpr std::size_t plain_size = 0;
template <>
inline constexpr std::size_t plain_size<weir::policies::meter> = 16;
template <>
inline constexpr std::size_t plain_size<weir::policies::fixed_window> = 24;
template <>
inline constexpr std::size_t plain_size<weir::policies::sliding_window> = 32;
template <>
inline constexpr std::size_t plain_size<weir::policies::sliding_log> = 24;

inline constexpr auto plain_sizes = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array{plain_size<std::variant_alternative_t<I, kernel>>...};
}(std::make_index_sequence<weir::redis::full_kernels>());
static_assert([]<std::size_t... I>(std::index_sequence<I...>) {
  return ((weir::policies::is_policy(std::variant_alternative_t<I, kernel>::kind) ==
           (plain_sizes[I] > 0)) &&
          ...);
}(std::make_index_sequence<weir::redis::full_kernels>()));

inline constexpr int server_time = 5'000'000;

inline const std::string act_of_giving_back = std::to_string(
    static_cast<std::int64_t>(weir::policies::settle_act::give_back));

inline constexpr auto script_constants = []<std::size_t... I>(std::index_sequence<I...>) {
  return std::array{std::variant_alternative_t<I, kernel>::script_constants...};
}(std::make_index_sequence<weir::redis::full_kernels>());

/// Knows what is due, and what a reply to it looks like.
struct server {
  weir::test::command_reader reader;
  std::deque<std::vector<std::string>> due;

  void accept() {
    reader.clear();
    due.clear();
  }
  void read(std::string_view bytes) {
    reader.feed(bytes);
    while (auto command = reader.next()) {
      weir::test::name_script(*command);
      due.push_back(std::move(*command));
    }
  }
  bool is_asked_for_scripts() const {
    return !due.empty() && due.front()[0] == "SCRIPT" && due.front()[1] == "EXISTS";
  }
  static std::size_t script_of(const std::vector<std::string>& words) {
    return weir::test::script_index(words[1]);
  }
  /// To SCRIPT EXISTS: the server has all of them (1) or none (0).
  static std::string known_scripts(const std::vector<std::string>& words, int each) {
    std::string all = "*" + std::to_string(words.size() - 2) + "\r\n";
    for (std::size_t i = 2; i < words.size(); ++i) all += ":" + std::to_string(each) + "\r\n";
    return all;
  }
  /// The kernels of a call of several tiers with a common path; none for any other call.
  static std::vector<std::size_t> kernels_of(const std::vector<std::string>& words) {
    std::vector<std::size_t> kinds;
    if (words[0] != "EVALSHA") return kinds;
    for (const auto& tier : weir::redis::tiers_of_script(script_of(words))) {
      kinds.push_back(tier.kernel_index);
    }
    return kinds;
  }
  /// The kernel whose own script this is; full_kernels or more: of none.
  static std::size_t own_kernel_of(std::size_t script) {
    constexpr std::size_t bucket = 0;
    static_assert(
        std::is_same_v<std::variant_alternative_t<bucket, kernel>, weir::policies::meter>);
    return script == weir::redis::bucket_in_parts ? bucket : script;
  }
  /// The sizes of what a common path says of one check; none if there is no common path.
  static std::vector<std::size_t> plain_sizes_of(const std::vector<std::string>& words) {
    if (words[0] != "EVALSHA") return {};
    const std::size_t own = own_kernel_of(script_of(words));
    if (own < plain_sizes.size() && plain_sizes[own] > 0) return {plain_sizes[own]};
    std::vector<std::size_t> sizes;
    for (const std::size_t kind : kernels_of(words)) {
      // A cool-down is two numbers of sixteen digits.
      if (plain_sizes[kind] == 0) sizes.push_back(16);
      sizes.push_back(std::max<std::size_t>(16, plain_sizes[kind]));
    }
    return sizes;
  }
  /// What a script answers after its time, by check; each of the numbers in a state is `value`.
  static std::vector<std::vector<int>> found_by(const std::vector<std::string>& words, int value) {
    using namespace weir::redis;
    const std::size_t script = script_of(words);
    std::size_t keys = std::stoul(words[2]);
    if (const std::size_t own = own_kernel_of(script); own < full_kernels) {
      return {keys, std::vector<int>(reply_widths[own], value)};
    }
    std::size_t at = 3 + keys;
    const bool settles = script == settlement;
    const bool remembers = settles && words[at] != "0";
    if (remembers) --keys;
    if (settles) at += 2;
    const std::vector<std::size_t> kinds = kernels_of(words);
    const std::size_t tiers = kinds.empty() ? std::stoul(words[at]) : kinds.size();
    ++at;
    std::size_t width = 0;
    for (const std::size_t kind : kinds) width += reply_widths[kind];
    for (std::size_t t = 0; kinds.empty() && t < tiers; ++t) {
      const auto one = static_cast<std::size_t>(std::abs(std::stol(words[at]))) - 1;
      width += reply_widths[one];
      const bool gives_back = settles && words[++at] == act_of_giving_back;
      at += 1 + script_constants[one];
      if (gives_back) at += 1 + std::stoul(words[at]);  // what is known of the request there
    }
    if (settles) {
      std::vector<int> numbers(1 + keys / tiers * width, value);
      numbers[0] = value & 1;
      return {numbers};
    }
    const bool reserves = task_of_script(script) == script_task::reserve;
    if (script == reservation) ++at;
    std::vector<std::vector<int>> all;
    for (std::size_t first = 0; first < keys; first += tiers) {
      // Equal checks come together, and each reservation has an answer.
      const std::size_t places = reserves && at < words.size() ? std::stoul(words[at++]) : 1;
      std::vector<int>& numbers = all.emplace_back();
      for (std::size_t i = 0; i < places; ++i) {
        if (reserves) numbers.push_back(server_time + static_cast<int>(i) * 1000);
        numbers.insert(numbers.end(), width, value);
      }
    }
    return all;
  }
  /// `value`: each of the numbers in the state.
  std::string answer(bool knows_hello, int value) {
    if (due.empty()) return {};
    const auto words = std::move(due.front());
    due.pop_front();
    if (words[0] == "HELLO") {
      return knows_hello ? "%1\r\n+proto\r\n:3\r\n" : "-ERR unknown command `HELLO`\r\n";
    }
    if (words[0] == "UNLINK") return ":1\r\n";
    if (words[0] == "SCRIPT") return known_scripts(words, 0);
    if (words[0] != "EVALSHA") return "+OK\r\n";
    std::vector<std::string> values{integer(server_time)};
    for (const auto& numbers : found_by(words, value)) {
      for (const int number : numbers) values.push_back(integer(number));
    }
    return array(values);
  }
  static std::string integer(int value) { return ":" + std::to_string(value) + "\r\n"; }
  static std::string array(const std::vector<std::string>& values) {
    std::string all = "*" + std::to_string(values.size()) + "\r\n";
    for (const std::string& value : values) all += value;
    return all;
  }
  static std::string bulk(std::string_view text) {
    return "$" + std::to_string(text.size()) + "\r\n" + std::string(text) + "\r\n";
  }
  /// What a common path may say of a key: absent, something else, a state, any bytes, too few or
  /// too many.
  static std::string plain_text(weir::fuzz::input& in, std::size_t size) {
    const std::uint8_t how = in.byte();
    if (how % 5 == 1) return std::string(size, '-');
    if (how % 5 == 3) {
      std::string any(in.bytes(size));
      any.resize(size, '5');
      return any;
    }
    if (how % 5 == 4) return std::string(in.bytes(in.byte()));
    if (size == 16) return how % 5 == 0 ? "0000000000000000" : "1790000000123456";
    std::string state;
    for (std::size_t i = 0; i < size / 8; ++i) {
      // A time first, in the log a sum; then small counts; lines of the grid.
      const double number = how % 5 == 0 ? 0.0 : i == how / 5 % 3 ? 4.9e6 : how / 15;
      const auto bytes = std::bit_cast<std::array<char, sizeof number>>(number);
      state.append(bytes.data(), bytes.size());
    }
    return state;
  }
  /// To a script that has a common path, in one of its forms: a text for all keys, or an array with
  /// a text or numbers for each key.
  std::string answer_plain(weir::fuzz::input& in) {
    if (due.empty()) return {};
    const std::vector<std::size_t> sizes = plain_sizes_of(due.front());
    if (sizes.empty()) return answer(true, 0);
    const auto checks = found_by(due.front(), 0);
    due.pop_front();
    const auto texts_of_check = [&] {
      std::string all;
      for (const std::size_t size : sizes) all += plain_text(in, size);
      return all;
    };
    const std::uint8_t form = in.byte();
    if (form % 2 == 0) {
      std::string text = form % 16 == 2 ? "5 1000000 " : form % 16 == 4 ? "5 0" : "5 0 ";
      for (const std::size_t size : sizes) {
        for (std::size_t i = 0; i < checks.size(); ++i) text += plain_text(in, size);
      }
      return bulk(text);
    }
    std::vector<std::string> values{form % 16 == 3 ? bulk("5000000") : integer(server_time)};
    for (const auto& numbers : checks) {
      const std::uint8_t which = in.byte();
      if (which % 2 == 0) {
        values.push_back(bulk(texts_of_check()));
        continue;
      }
      const std::size_t count = numbers.size() + (which % 16 == 1 ? 1 : 0);
      for (std::size_t n = 0; n < count; ++n) {
        values.push_back(integer(static_cast<int>(in.byte()) - 1));
      }
    }
    return array(values);
  }
  std::string answer_all(bool knows_hello, int value) {
    std::string all;
    while (!due.empty()) all += answer(knows_hello, value);
    return all;
  }
};

}  // namespace weir::fuzz
