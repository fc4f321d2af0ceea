#include "redis/scripts.hpp"

#include <openssl/evp.h>

#include <boost/system/system_error.hpp>
#include <type_traits>
#include <utility>

#include "policy/lua_sources.hpp"
#include "text/ascii.hpp"
#include "weir/error.hpp"

namespace weir::redis {
namespace {

std::string sha1_hex(std::string_view text) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned size = 0;
  if (EVP_Digest(text.data(), text.size(), digest, &size, EVP_sha1(), nullptr) != 1) {
    throw boost::system::system_error(make_error_code(error::invalid_options),
                                      "redis: this OpenSSL offers no SHA-1, which names scripts");
  }
  std::string hex;
  text::append_hex(hex, {digest, size});
  return hex;
}

std::string number(std::size_t n) { return std::to_string(n); }

/// The common path of a kernel's own script, which reads its keys with that piece.
std::string common_path(std::string_view script, std::string_view reading) {
  constexpr std::string_view line = "@read\n";
  std::string text(script);
  for (std::size_t at = 0; (at = text.find(line, at)) != text.npos; at += reading.size()) {
    text.replace(at, line.size(), reading);
  }
  return text;
}

template <class Kernel>
std::string text_of_one() {
  std::string text(policies::lua::start_lua);
  if constexpr (Kernel::has_common_path) {
    text += common_path(Kernel::record_script(), policies::lua::read_keys_lua);
    text += policies::lua::prelude_lua;
    text += Kernel::script();
    text += policies::lua::run_rare_lua;
  } else {
    text += policies::lua::prelude_lua;
    text += "local first_arg = 1\n";
    text += Kernel::script();
    text += "local constants, width = " + number(Kernel::script_constants) + ", " +
            number(Kernel::reply_width) + "\n";
    text += policies::lua::run_one_lua;
  }
  return text;
}

/// A kernel's entry in the table from which the driver for several kernels makes the ones it needs.
template <class Kernel>
std::string entry_of_all() {
  std::string text("{constants = " + number(Kernel::script_constants) +
                   ", width = " + number(Kernel::reply_width) + ", make = function(first_arg)\n");
  text += Kernel::script();
  text += "return check\nend},\n";
  return text;
}

/// The entry is "false" for a kernel that lacks the script's capability.
template <class Kernel>
std::string entry_of_turns() {
  if constexpr (Kernel::can_reserve) return entry_of_all<Kernel>();
  return "false,\n";
}

template <class Kernel>
std::string entry_of_settling() {
  if constexpr (Kernel::can_settle) {
    std::string text("{constants = " + number(Kernel::script_constants) +
                     ", width = " + number(Kernel::reply_width) + ", make = function(first_arg)\n");
    text += Kernel::script();
    text += Kernel::settle_script();
    if constexpr (Kernel::charges_without_limit) {
      // These kernels charge by running a check under the same policy without its limit.
      text += policies::lua::lower_lua;
      text += "return give_back, check, lower\nend},\n";
    } else {
      text += "return give_back, check, lower, charge\nend},\n";
    }
    return text;
  } else {
    return "false,\n";
  }
}

/// The table of the kernels, then a driver.
template <class... Entries>
std::string table_of(std::string_view driver, const Entries&... entries) {
  std::string text(policies::lua::prelude_lua);
  text += "local kernels = {\n";
  (text.append(entries), ...);
  text += "}\n";
  text += policies::lua::kernel_at_lua;
  text += driver;
  return text;
}

template <class... Entries>
std::string text_of_table(std::string_view driver, const Entries&... entries) {
  return std::string(policies::lua::start_lua) + table_of(driver, entries...);
}

/// What stands behind this line of a kernel's part, up to the next line that begins with "@".
std::string_view section_of(std::string_view part, std::string_view line) {
  part.remove_prefix(part.find(line) + line.size());
  return part.substr(0, part.find('@'));
}

template <class Kernel>
std::string branch_of_joint(std::size_t index, std::string_view line) {
  std::string text;
  if constexpr (Kernel::has_joint_path) {
    text = "if kind == " + std::to_string(policies::kernel_number(index, false)) + " then\n";
    text += section_of(Kernel::joint_script(), line);
    text += "end\n";
  }
  return text;
}

/// What answers checks of several keys: the full kernels, as a function, then a driver with the
/// parts of the common path. It knows all kernels (`Only` is void), or `Only` and cool-downs.
template <class Only, class... Kernels>
std::string joint_driver(const std::variant<Kernels...>*) {
  const auto has = []<class K>(std::type_identity<K>) {
    return std::is_void_v<Only> || std::is_same_v<K, Only> ||
           std::is_same_v<K, policies::cool_down>;
  };
  std::string driver(policies::lua::record_all_lua);
  for (const std::string_view line : {"@look\n", "@write\n", "@constants\n"}) {
    std::string branches;
    std::size_t index = 0;
    const auto add = [&]<class K>(std::type_identity<K> kernel) {
      if (has(kernel)) branches += branch_of_joint<K>(index, line);
      ++index;
    };
    (add(std::type_identity<Kernels>()), ...);
    driver.replace(driver.find(line), line.size(), branches);
  }
  const auto entry = [&]<class K>(std::type_identity<K> kernel) {
    return has(kernel) ? entry_of_all<K>() : std::string("false,\n");
  };
  return "local function full_kernels(ARGV)\n" +
         table_of(policies::lua::run_all_lua, entry(std::type_identity<Kernels>())...) + "end\n" +
         driver;
}

constexpr const policies::kernel* all_kernels = nullptr;

std::string text_of_joint() {
  std::string text(policies::lua::start_lua);
  text += "local held = {}\n" + joint_driver<void>(all_kernels);
  text += policies::lua::reply_all_lua;
  return text;
}

/// The script of one kernel's checks that a cool-down may refuse.
template <class Kernel>
std::string text_with_cool_downs() {
  static_assert(Kernel::has_common_path && Kernel::has_joint_path);
  std::string text(policies::lua::start_lua);
  text += common_path(Kernel::record_script(), policies::lua::read_beside_cool_downs_lua);
  text += "local function answer_all(KEYS, ARGV, held)\n" + joint_driver<Kernel>(all_kernels);
  text += "return found, states\nend\n";
  text += policies::lua::run_left_lua;
  return text;
}

script named(std::string text) {
  std::string sha = sha1_hex(text);
  return {std::move(text), std::move(sha)};
}

template <class... Kernels, std::size_t... WithCoolDowns>
std::array<script, script_count> make_scripts(const std::variant<Kernels...>*,
                                              std::index_sequence<WithCoolDowns...>) {
  return {
      named(text_of_one<Kernels>())..., named(text_of_joint()),
      named(text_of_table(policies::lua::reserve_lua, entry_of_turns<Kernels>()...)),
      named(text_of_table(policies::lua::settle_lua, entry_of_settling<Kernels>()...)),
      named(
          text_with_cool_downs<std::variant_alternative_t<WithCoolDowns, policies::kernel>>())...};
}

}  // namespace

const std::array<script, script_count>& scripts() {
  static const auto all = make_scripts(all_kernels,
                                       std::make_index_sequence<kernels_with_cool_downs>());
  return all;
}

}  // namespace weir::redis
