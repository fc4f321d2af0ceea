#include "redis/script/scripts.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/algorithm/string/replace.hpp>
#include <boost/container/static_vector.hpp>
#include <boost/system/system_error.hpp>
#include <mutex>
#include <type_traits>
#include <utility>

#include "policy/lua_sources.hpp"
#include "text/ascii.hpp"
#include "weir/error.hpp"

namespace weir::redis {

using policies::kernel_kind;

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

/// The script for checks of one key each; with `in_parts`, that of buckets whose T is in parts.
template <class Kernel>
std::string text_of_one(bool in_parts = false) {
  std::string text(policies::lua::start_lua);
  if constexpr (Kernel::kind == kernel_kind::bucket) {
    // Its record_script() has quicker code for one key than its part.
    text += Kernel::record_script(in_parts);
    boost::algorithm::replace_all(text, "@read\n", policies::lua::read_keys_lua);
  } else if constexpr (policies::is_policy(Kernel::kind)) {
    text += common_path_of(Kernel::plain_script(), Kernel::script_constants);
  } else {
    text += "local first_arg, counts, before, rare, found = 1, ARGV, " +
            number(Kernel::script_constants) + "\n";
  }
  text += policies::lua::prelude_lua;
  text += Kernel::script();
  text += "local width = " + number(Kernel::reply_width) + "\n";
  text += policies::lua::run_one_lua;
  return text;
}

/// The beginning of a kernel's entry in the table from which a driver for several kernels makes
/// those it needs.
template <class Kernel>
std::string begin_entry() {
  return "{constants = " + number(Kernel::script_constants) +
         ", width = " + number(Kernel::reply_width) + ", make = function(first_arg)\n" +
         std::string(Kernel::script());
}

/// The entry of a kernel that gives back and charges; "false" for a gate.
template <class Kernel>
std::string entry_of_settling() {
  if constexpr (Kernel::kind != kernel_kind::gate) {
    std::string text = begin_entry<Kernel>();
    text += Kernel::settle_script();
    if constexpr (Kernel::kind == kernel_kind::window) {
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
std::string table_of(std::string_view driver, std::span<const std::string> entries) {
  std::string text(policies::lua::prelude_lua);
  text += "local kernels = {\n";
  for (const std::string& entry : entries) text += entry;
  text += "}\n";
  text += policies::lua::kernel_at_lua;
  text += driver;
  return text;
}

/// The function full_kernels() with the kernels of these tiers; with all if there are none.
template <class... Kernels>
std::string text_of_full_kernels(std::span<const script_tier> tiers, script_task task,
                                 const std::variant<Kernels...>*) {
  std::size_t index = 0;
  const auto entry = [&]<class K>(std::type_identity<K>) {
    const bool has = tiers.empty() ||
                     std::ranges::count(tiers, index, &script_tier::kernel_index) > 0;
    ++index;
    const bool can = K::kind != kernel_kind::gate || task == script_task::record;
    return has && can ? begin_entry<K>() + "return check\nend},\n" : std::string("false,\n");
  };
  // A braced list is evaluated in order, as `index` needs it.
  const std::string entries[] = {entry(std::type_identity<Kernels>())...};
  std::string driver(policies::lua::full_kernels_lua);
  driver += task == script_task::record ? policies::lua::run_all_lua : policies::lua::reserve_lua;
  return "local function full_kernels(ARGV)\n" + table_of(driver, entries) + "end\n";
}

script named(std::string text) {
  std::string sha = sha1_hex(text);
  return {std::move(text), std::move(sha)};
}

constexpr const policies::kernel* all_kernels = nullptr;

constexpr std::size_t without_common_path(script_task task) noexcept {
  return task == script_task::record ? full_kernels : reservation;
}

/// All scripts, in memory that does not move.
class script_list {
 public:
  script_list() { add_first(all_kernels); }

  std::span<const script> made() const noexcept {
    return std::span(scripts_).first(count_.load(std::memory_order_acquire));
  }

  std::span<const script_tier> tiers_of(std::size_t index) const noexcept { return tiers_[index]; }
  script_task task_of(std::size_t index) const noexcept { return tasks_[index]; }

  std::size_t index_of(std::span<const script_tier> tiers, script_task task) {
    if (tiers.empty() || tiers.size() > most_script_tiers) return without_common_path(task);
    std::size_t count = made().size(), index = find(tiers, task, count);
    if (index < count) return index;
    const std::scoped_lock lock(mutex_);
    count = made().size();
    index = find(tiers, task, count);
    if (index < count) return index;
    if (count == scripts_.size()) return without_common_path(task);
    tiers_[count].assign(tiers.begin(), tiers.end());
    tasks_[count] = task;
    scripts_[count] = make_script(tiers, task);
    count_.store(count + 1, std::memory_order_release);
    return count;
  }

 private:
  template <class... Kernels>
  void add_first(const std::variant<Kernels...>*) {
    std::size_t count = 0;
    const auto add = [&](std::string text) { scripts_[count++] = named(std::move(text)); };
    (add(text_of_one<Kernels>()), ...);
    for (const script_task task : {script_task::record, script_task::reserve}) {
      tasks_[count] = task;
      scripts_[count++] = make_script({}, task);
    }
    const std::string settling[] = {entry_of_settling<Kernels>()...};
    add(std::string(policies::lua::start_lua) + table_of(policies::lua::settle_lua, settling));
    add(text_of_one<policies::meter>(true));
    count_ = count;
  }

  /// `count` if it is not among the first `count` scripts.
  std::size_t find(std::span<const script_tier> tiers, script_task task,
                   std::size_t count) const noexcept {
    std::size_t index = first_common_path;
    while (index < count && (tasks_[index] != task || !std::ranges::equal(tiers_[index], tiers))) {
      ++index;
    }
    return index;
  }

  std::mutex mutex_;  // held while a script is added
  std::array<script, most_scripts> scripts_;
  std::array<boost::container::static_vector<script_tier, most_script_tiers>, most_scripts> tiers_;
  std::array<script_task, most_scripts> tasks_{};
  std::atomic<std::size_t> count_{0};
};

script_list& all_scripts() {
  static script_list all;
  return all;
}

}  // namespace

std::span<const script> scripts() { return all_scripts().made(); }

std::size_t script_for(const policies::kernel& k) noexcept {
  const auto* const bucket = std::get_if<policies::meter>(&k);
  return bucket == nullptr || bucket->has_whole_units() ? k.index() : bucket_in_parts;
}

script make_script(std::span<const script_tier> tiers, script_task task) {
  std::string text(policies::lua::start_lua);
  text += text_of_full_kernels(tiers, task, all_kernels);
  text += tiers.empty() ? std::string(policies::lua::run_each_lua) : common_path_of(tiers, task);
  return named(std::move(text));
}

script_task task_of_script(std::size_t index) noexcept { return all_scripts().task_of(index); }

std::span<const script_tier> tiers_of_script(std::size_t index) noexcept {
  return all_scripts().tiers_of(index);
}

std::size_t script_for(std::span<const script_tier> tiers, script_task task) noexcept try {
  return all_scripts().index_of(tiers, task);
} catch (...) {  // no memory, or no SHA-1
  return without_common_path(task);
}

}  // namespace weir::redis
