#include "redis/script/scripts.hpp"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/algorithm/string/replace.hpp>
#include <boost/system/system_error.hpp>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "policy/lua_sources.hpp"
#include "text/ascii.hpp"
#include "weir/error.hpp"

namespace weir::redis {

using boost::algorithm::replace_all;
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

script named(std::string text) {
  std::string sha = sha1_hex(text);
  return {std::move(text), std::move(sha)};
}

std::string number(std::size_t n) { return std::to_string(n); }

constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyz_";

/// The lines behind the line of this mark and name, up to the next line of a mark and a name; null
/// if the file has no such section.
std::string_view section_of(std::string_view file, std::string_view name,
                            std::string_view mark = "@") {
  const auto line_at = [&](std::size_t at) { return file.substr(at, file.find('\n', at) - at); };
  const auto begins_section = [&](std::string_view line) {
    return line.size() > mark.size() && line.starts_with(mark) &&
           line.find_first_not_of(letters, mark.size()) == line.npos;
  };
  for (std::size_t at = 0; at < file.size();) {
    const std::string_view line = line_at(at);
    at += line.size() + 1;
    if (!begins_section(line) || line.substr(mark.size()) != name) continue;
    std::size_t stop = at;
    while (stop < file.size() && !begins_section(line_at(stop))) stop += line_at(stop).size() + 1;
    return file.substr(at, stop - at);
  }
  return {};
}

std::string_view driver_section(std::string_view name) {
  return section_of(policies::lua::check_lua, name, "@@");
}

/// What the template needs to know of a kernel.
struct kernel_text {
  std::string_view file;
  std::size_t width;
};

template <class... Kernels>
kernel_text text_of(std::size_t index, const std::variant<Kernels...>*) {
  const kernel_text all[] = {{Kernels::script(), Kernels::reply_width}...};
  return all[index];
}
constexpr const policies::kernel* all_kernels = nullptr;
kernel_text text_of(const kernel_list::tier& t) { return text_of(t.kernel, all_kernels); }

/// The section for buckets in parts if the tier is one, and there is such a section.
std::string_view section_of(const kernel_list::tier& t, std::string_view name) {
  const std::string_view file = text_of(t).file;
  const std::string_view in_parts = t.in_parts ? section_of(file, std::string(name) + "_of_parts")
                                               : std::string_view();
  return in_parts.data() == nullptr ? section_of(file, name) : in_parts;
}

/// Puts `end` behind each name that ends with an underscore, or, if it is empty, removes that.
void end_names(std::string& text, std::string_view end) {
  for (std::size_t at = 0; (at = text.find('_', at)) != text.npos;) {
    if (at + 1 < text.size() && letters.find(text[at + 1]) != letters.npos) {
      ++at;
    } else if (end.empty()) {
      text.erase(at, 1);
    } else {
      text.insert(at + 1, end);
      at += 1 + end.size();
    }
  }
}

/// Keeps or removes the lines that begin with this word.
void choose_lines(std::string& text, std::string_view word, bool keep) {
  for (std::size_t at = 0; at < text.size();) {
    const bool begins = text.compare(at, word.size(), word) == 0;
    const std::size_t next = text.find('\n', at) + 1;
    if (begins) text.erase(at, keep ? word.size() : next - at);
    if (!begins || keep) at = text.find('\n', at) + 1;
    if (next == 0) return;
  }
}

/// The names of the kernel's constants, each with an underscore at its end.
std::vector<std::string> constants_of(const kernel_list::tier& t, bool has_common_path) {
  std::vector<std::string> names;
  std::string_view list = section_of(t, has_common_path ? "common_constants" : "constants");
  for (std::size_t end = 0; (end = list.find(',')) != list.npos; list.remove_prefix(end + 1)) {
    const std::string_view one = list.substr(0, end);
    names.emplace_back(one.substr(one.find_first_of(letters)));
  }
  return names;
}

/// The full kernel, whose constants have to stand in front of it.
std::string full_text_of(const kernel_list::tier& t) {
  std::string text(section_of(t, "full"));
  std::string rule(section_of(t, "rule"));
  end_names(rule, "");
  replace_all(text, "@insert rule\n", rule);
  choose_lines(text, "@whole ", !t.in_parts);
  return text;
}

/// A function that makes the tier's full kernel of its constants; nothing if the same kernel stands
/// at a tier before.
std::string full_function_of(const kernel_list& list, std::size_t index) {
  const kernel_list::tier& t = list.tiers[index];
  const auto first = std::ranges::find(list.tiers, t);
  const auto nth = static_cast<std::size_t>(first - list.tiers.begin());
  std::string names, values, text;
  for (const std::string& one : constants_of(t, list.has_common_path)) {
    if (!names.empty()) names += ", ", values += ", ";
    names += one.substr(0, one.size() - 1);
    values += one;
  }
  end_names(values, number(index + 1));
  const std::string name = "kernel" + number(nth + 1);
  if (nth == index) {
    text = "local function " + name + "(" + names + ")\n";
    if (list.has_common_path) text += section_of(t, "others");
    text += full_text_of(t) + "return check\nend\n";
  }
  return text + "check_at[" + number(index + 1) + "] = " + name + "(" + values + ")\n";
}

/// A repeated text for one tier.
std::string tier_text(const kernel_list& list, std::size_t index, std::string_view text) {
  const kernel_list::tier& t = list.tiers[index];
  const std::string nth = number(index + 1);
  std::string own(text);
  const std::string constants = list.has_common_path ? "common_constants" : "constants";
  replace_all(own, "@constants\n", section_of(t, constants));
  for (const char* const name : {"start", "state", "quick", "look", "refused", "write"}) {
    replace_all(own, "@" + std::string(name) + "\n", section_of(t, name));
  }
  replace_all(own, "@insert rule\n", section_of(t, "rule"));
  replace_all(own, "@key", index == 0 ? "i" : number(index) + " * n + i");
  replace_all(own, "@nth", nth);
  const bool reads_key = text_of(t).file.find("@reads_key\n") != std::string_view::npos;
  replace_all(own, "@reads_key", reads_key ? "true" : "false");
  end_names(own, nth);
  replace_all(own, "@full\n", full_function_of(list, index));
  return own;
}

/// The template with its blocks repeated.
std::string repeated(const kernel_list& list, std::string_view rest) {
  constexpr std::string_view each = "@each\n", end = "@end\n";
  std::string text;
  for (std::size_t at = 0; (at = rest.find(each)) != rest.npos;) {
    text += rest.substr(0, at);
    rest.remove_prefix(at + each.size());
    const std::string_view block = rest.substr(0, rest.find(end));
    rest.remove_prefix(block.size() + end.size());
    for (std::size_t index = 0; index < list.tiers.size(); ++index) {
      // A cool-down writes nothing.
      const bool is_used = block.find("@write\n") == block.npos ||
                           !section_of(list.tiers[index], "write").empty();
      if (is_used) text += tier_text(list, index, block);
    }
  }
  text += rest;
  return text;
}

/// Local names for what the common path uses: a local name is found quicker than a member.
std::string locals_for(std::string_view path) {
  constexpr std::string_view known[][2] = {
      {"tonumber", "tonumber"},  {"find", "string.find"}, {"format", "string.format"},
      {"match", "string.match"}, {"pack", "struct.pack"}, {"exact", "9007199254740991"}};
  std::string text;
  for (const auto& [name, value] : known) {
    const bool is_used = [&] {
      for (std::size_t at = 0; (at = path.find(name, at)) != path.npos; at += name.size()) {
        const std::string_view around(".abcdefghijklmnopqrstuvwxyz_");
        const std::size_t end = at + name.size();
        if (around.find(path[at - 1]) == around.npos && around.find(path[end]) == around.npos) {
          return true;
        }
      }
      return false;
    }();
    if (is_used) text += "local " + std::string(name) + " = " + std::string(value) + "\n";
  }
  return text;
}

std::string text_of(const kernel_list& list) {
  const bool is_one = list.tiers.size() == 1;
  std::string text(driver_section("head"));
  std::string locals;
  if (list.has_common_path) {
    std::string path = repeated(list, driver_section(is_one ? "one" : "several"));
    choose_lines(path, "@one ", is_one);
    choose_lines(path, "@several ", !is_one);
    locals = locals_for(path);
    text += "do\n" + path + "end\n";
    if (is_one) text += "local flags = 0\n";
  }
  text += policies::lua::prelude_lua;
  text += driver_section("kernels");
  text += driver_section(is_one ? "record_one" : "record_several");
  text += driver_section("answer");
  text = repeated(list, text);

  replace_all(text, "@locals\n", locals);
  replace_all(text, "@flags", is_one && list.has_common_path ? "" : "flags,");
  // Of several, each text ends with a space.
  choose_lines(text, "@parts ", is_one && list.tiers[0].in_parts);
  choose_lines(text, "@whole ", is_one && !list.tiers[0].in_parts);
  std::string format = is_one && list.has_common_path ? "<d" : "<dd", widths;
  std::size_t width = 0, shown = list.tiers.size();
  bool some_read = false;
  for (const kernel_list::tier& t : list.tiers) {
    for (const std::string& name : constants_of(t, list.has_common_path)) {
      format += name.ends_with("text_") ? 's' : 'd';
    }
    const kernel_text kernel = text_of(t);
    width += kernel.width;
    widths += (widths.empty() ? "" : ", ") + number(kernel.width);
    some_read = some_read || kernel.file.find("@reads_key\n") != std::string_view::npos;
  }
  const std::size_t cool_down = policies::kernel(policies::cool_down()).index();
  while (shown > 1 && list.tiers[shown - 1].kernel == cool_down) --shown;
  replace_all(text, "@some_read_keys", some_read ? "true" : "false");
  replace_all(text, "@reads_key", some_read ? "true" : "false");
  replace_all(text, "@format", format);
  replace_all(text, "@numbers", std::string(width, 'd'));
  replace_all(text, "@widths", widths);
  replace_all(text, "@width", number(width));
  replace_all(text, "@tiers", number(list.tiers.size()));
  replace_all(text, "@shown", number(shown));
  return std::string(policies::lua::start_lua) + text;
}

/// The entry of a kernel in the script that settles; "false" for a gate.
template <class Kernel>
std::string entry_of_settling(std::size_t index) {
  if constexpr (Kernel::kind == kernel_kind::gate) {
    return "false,\n";
  } else {
    // Buckets with parts are the general case.
    const kernel_list::tier t{index, Kernel::kind == kernel_kind::bucket};
    std::string text = "{constants = ", constants;
    std::size_t count = 0;
    for (std::string name : constants_of(t, false)) {
      name.pop_back();
      constants += "local " + name + " = tonumber(ARGV[first_arg + " + number(count++) + "])\n";
    }
    text += number(count) + ", width = " + number(Kernel::reply_width) +
            ", make = function(first_arg)\n" + constants + full_text_of(t);
    text += Kernel::settle_script();
    if constexpr (Kernel::kind == kernel_kind::window) {
      // These kernels charge by running a check under the same policy without its limit.
      text += policies::lua::lower_lua;
      text += "return give_back, check, lower\nend},\n";
    } else {
      text += "return give_back, check, lower, charge\nend},\n";
    }
    return text;
  }
}

template <class... Kernels>
std::string settling_text(const std::variant<Kernels...>*) {
  std::string text(policies::lua::start_lua);
  text += policies::lua::prelude_lua;
  text += "local kernels = {\n";
  std::size_t index = 0;
  ((text += entry_of_settling<Kernels>(index++)), ...);
  text += "}\n";
  text += policies::lua::settle_lua;
  return text;
}

/// All scripts, in memory that does not move.
class script_catalogue {
 public:
  script_catalogue() {
    std::size_t count = 0;
    const auto add = [&](kernel_list list) {
      scripts_[count] = make_script(list);
      lists_[count++] = std::move(list);
    };
    add_kernels(add, all_kernels);
    scripts_[count++] = named(settling_text(all_kernels));
    add({{{policies::kernel(policies::meter(1, 1, 1, false)).index(), true}}, true});
    count_ = count;
  }

  std::span<const script> made() const noexcept {
    return {scripts_.get(), count_.load(std::memory_order_acquire)};
  }
  const kernel_list& list_of(std::size_t index) const noexcept { return lists_[index]; }

  std::size_t index_of(const kernel_list& list) {
    std::size_t count = made().size(), index = find(list, count);
    if (index < count) return index;
    const std::scoped_lock lock(mutex_);
    count = made().size();
    index = find(list, count);
    if (index < count) return index;
    if (count == most_scripts) return no_script;
    scripts_[count] = make_script(list);
    lists_[count] = list;
    count_.store(count + 1, std::memory_order_release);
    return count;
  }

 private:
  template <class Add, class... Kernels>
  static void add_kernels(const Add& add, const std::variant<Kernels...>*) {
    std::size_t index = 0;
    (add({{{index++}}, policies::is_policy(Kernels::kind)}), ...);
  }

  /// `count` if it is not among the first `count` scripts.
  std::size_t find(const kernel_list& list, std::size_t count) const noexcept {
    const kernel_list* const first = lists_.get();
    return static_cast<std::size_t>(std::find(first, first + count, list) - first);
  }

  std::mutex mutex_;  // held while a script is added
  std::unique_ptr<script[]> scripts_ = std::make_unique<script[]>(most_scripts);
  std::unique_ptr<kernel_list[]> lists_ = std::make_unique<kernel_list[]>(most_scripts);
  std::atomic<std::size_t> count_{0};
};

script_catalogue& catalogue() {
  static script_catalogue all;
  return all;
}

}  // namespace

std::span<const script> scripts() { return catalogue().made(); }

script make_script(const kernel_list& list) { return named(text_of(list)); }

std::size_t script_for(const kernel_list& list) noexcept try {
  return catalogue().index_of(list);
} catch (...) {  // no memory, or no SHA-1
  return no_script;
}

void kernel_list::make_general() noexcept {
  has_common_path = false;
  const std::size_t bucket = policies::any_state(policies::meter::state()).index() - 1;
  for (tier& t : tiers) t.in_parts = t.kernel == bucket;
}

const kernel_list& list_of_script(std::size_t index) noexcept { return catalogue().list_of(index); }

}  // namespace weir::redis
