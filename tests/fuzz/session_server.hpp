#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
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
template <>
inline constexpr std::size_t plain_size<weir::policies::cool_down> = 16;  // twice

/// By the kernel's index: of its reply, its text on a common path, and its constants for settling.
struct sizes {
  std::size_t reply, plain, constants;
};
inline constexpr auto sizes_of = []<class... K>(const std::variant<K...>*) {
  return std::array{sizes{K::reply_width, plain_size<K>, K::script_constants}...};
}(static_cast<const kernel*>(nullptr));

inline constexpr int server_time = 5'000'000;

inline const std::string act_of_giving_back = std::to_string(
    static_cast<std::int64_t>(weir::policies::settle_act::give_back));

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
  static const weir::redis::kernel_list& list_of(const std::vector<std::string>& words) {
    return weir::redis::list_of_script(script_of(words));
  }
  static bool settles(const std::vector<std::string>& words) {
    return script_of(words) == weir::redis::settlement;
  }
  /// How many numbers the script replies behind the time and whether the settlement was done.
  static std::size_t settled_width(const std::vector<std::string>& words) {
    std::size_t at = 3 + std::stoul(words[2]) + 2, width = 0;
    for (std::size_t tiers = std::stoul(words[at++]); tiers > 0; --tiers) {
      const auto one = static_cast<std::size_t>(std::abs(std::stol(words[at++]))) - 1;
      width += sizes_of[one].reply;
      const bool gives_back = words[at++] == act_of_giving_back;
      at += sizes_of[one].constants;
      if (gives_back) at += 1 + std::stoul(words[at]);  // what is known of the request there
    }
    return width;
  }
  static bool reserves(const std::vector<std::string>& words) {
    const weir::redis::kernel_list& list = list_of(words);
    const bool is_short = list.has_common_path && list.tiers.size() == 1;
    double max_wait = -1;
    std::memcpy(&max_wait,
                words[3 + std::stoul(words[2])].data() + (is_short ? 0 : sizeof max_wait),
                sizeof max_wait);
    return max_wait >= 0;
  }
  /// How many numbers full kernels reply of each check.
  static std::vector<std::size_t> widths_of(const std::vector<std::string>& words) {
    const weir::redis::kernel_list& list = list_of(words);
    const std::size_t keys = std::stoul(words[2]);
    std::size_t at = 3 + keys, width = 0;
    for (const auto& tier : list.tiers) width += sizes_of[tier.kernel].reply;
    ++at;
    std::vector<std::size_t> all;
    for (std::size_t first = 0; first < keys; first += list.tiers.size()) {
      // Equal checks come together, and each reservation has an answer.
      const std::size_t count = at < words.size() ? std::stoul(words[at++]) : 1;
      all.push_back(reserves(words) ? count * (1 + width) : width);
    }
    return all;
  }
  static std::string packed(double number) {
    const auto bytes = std::bit_cast<std::array<char, sizeof number>>(number);
    return {bytes.data(), bytes.size()};
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
    if (settles(words)) {
      std::vector<std::string> values{integer(server_time), integer(value & 1)};
      values.resize(2 + settled_width(words), integer(value));
      return array(values);
    }
    std::string text = "!5 0 ";
    for (const std::size_t width : widths_of(words)) {
      text += 'f';
      for (std::size_t i = 0; i < width; ++i) {
        // A reservation has a time that is not before the clock's.
        const bool is_turn = reserves(words) && i % (1 + sum_of_replies(words)) == 0;
        text += packed(is_turn ? server_time + static_cast<int>(i) * 1000 : value);
      }
    }
    return bulk(text);
  }
  static std::size_t sum_of_replies(const std::vector<std::string>& words) {
    std::size_t width = 0;
    for (const auto& tier : list_of(words).tiers) width += sizes_of[tier.kernel].reply;
    return width;
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
  /// To a script that has a common path: with a text of all keys, or one or numbers for each check.
  std::string answer_plain(weir::fuzz::input& in) {
    if (due.empty()) return {};
    if (due.front()[0] != "EVALSHA" || !list_of(due.front()).has_common_path) {
      return answer(true, 0);
    }
    const auto words = std::move(due.front());
    due.pop_front();
    std::vector<std::size_t> each;
    for (const auto& tier : list_of(words).tiers) {
      each.push_back(sizes_of[tier.kernel].plain);
      const std::size_t cool_down = kernel(weir::policies::cool_down()).index();
      if (tier.kernel == cool_down) each.push_back(16);
    }
    const auto widths = widths_of(words);
    const std::uint8_t form = in.byte();
    std::string text = form % 16 == 2 ? "5 1000000 " : form % 16 == 4 ? "5 0" : "5 0 ";
    if (form % 2 == 0) {
      for (const std::size_t size : each) {
        for (std::size_t i = 0; i < widths.size(); ++i) text += plain_text(in, size);
      }
      return bulk(text);
    }
    text = "!" + text;
    for (const std::size_t width : widths) {
      const std::uint8_t which = in.byte();
      text += which % 2 == 0 ? 'p' : which % 32 == 3 ? 'x' : 'f';
      if (which % 2 == 0) {
        for (const std::size_t size : each) text += plain_text(in, size);
        continue;
      }
      const std::size_t count = width + (which % 16 == 1 ? 1 : 0);
      for (std::size_t n = 0; n < count; ++n) text += packed(static_cast<int>(in.byte()) - 1);
    }
    return bulk(text);
  }
  std::string answer_all(bool knows_hello, int value) {
    std::string all;
    while (!due.empty()) all += answer(knows_hello, value);
    return all;
  }
};

}  // namespace weir::fuzz
