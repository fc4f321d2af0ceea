#include "redis/script/script_template.hpp"

#include <algorithm>
#include <boost/algorithm/string/replace.hpp>
#include <cassert>

#include "policy/kernel.hpp"
#include "policy/lua_sources.hpp"

namespace weir::redis {
namespace {

using boost::algorithm::replace_all;

/// The text behind this line of a kernel's part, up to the next line that begins with "@"; empty if
/// the part has no such line.
std::string_view section_of(std::string_view part, std::string_view line) {
  const std::size_t at = part.find(line);
  assert(at != part.npos || (line != "@constants" && line != "@look" && line != "@full"));
  if (at == part.npos) return {};
  // The rest begins with the end of that line, so an empty section ends at once.
  part.remove_prefix(at + line.size());
  return part.substr(0, part.find("\n@"));
}

bool reads_key(std::string_view part) { return part.find("@reads_key") != part.npos; }

/// True if a tier with this part has the repeated text.
bool has(std::string_view part, std::string_view text) {
  const auto needs = [&](std::string_view line) { return text.find(line) != text.npos; };
  return (!needs("@write") || !section_of(part, "@write").empty()) &&
         (!needs("@get") || !reads_key(part));
}

/// The repeated text for one tier.
std::string text_for(std::span<const script_tier> tiers, std::size_t index, std::string_view text) {
  const script_tier& tier = tiers[index];
  const std::string number = std::to_string(index + 1);
  std::string own(text);
  for (const std::string_view line :
       {"@constants", "@start", "@state", "@look", "@refused", "@write", "@full"}) {
    replace_all(own, line, section_of(tier.part, line));
  }
  replace_all(own, "@get", "pcall('GET', keys[@key])");
  replace_all(own, "@kernel", std::to_string(policies::kernel_number(tier.kernel_index, false)));
  replace_all(own, "@key", index == 0 ? "i" : std::to_string(index) + " * n + i");
  replace_all(own, "@nth", number);
  for (std::size_t at = 0; (at = own.find('_', at)) != own.npos; ++at) {
    const bool ends_name = own.find_first_of("abcdefghijklmnopqrstuvwxyz_", at + 1) != at + 1;
    if (ends_name) own.insert(at + 1, number);
  }
  return own;
}

/// The format with which a script unpacks so many doubles.
std::string packed_format(std::size_t numbers) { return "<" + std::string(numbers, 'd'); }

/// Removes the lines for reservations, or only the word with which they begin.
void choose_lines(std::string& text, script_task task) {
  constexpr std::string_view word = "@reserving ";
  for (std::size_t at = 0; (at = text.find(word, at)) != text.npos;) {
    const std::size_t size = task == script_task::reserve ? word.size()
                                                          : text.find('\n', at) + 1 - at;
    text.erase(at, size);
  }
}

}  // namespace

std::string common_path_of(std::string_view part, std::size_t full_constants) {
  std::string text(policies::lua::record_one_lua);
  const std::string_view constants = section_of(part, "@constants");
  const auto numbers = static_cast<std::size_t>(std::ranges::count(constants, ','));
  replace_all(text, "@reads_key", reads_key(part) ? "true" : "false");
  replace_all(text, "@read\n", reads_key(part) ? "found = {}\n" : policies::lua::read_keys_lua);
  for (const std::string_view line :
       {"@constants", "@start", "@state", "@usual", "@quick", "@look", "@write", "@full"}) {
    replace_all(text, line, section_of(part, line));
  }
  replace_all(text, "@key", "i");
  // The counts stand behind one argument, which is 0 if the full kernel's constants follow it.
  replace_all(text, "@behind", std::to_string(1 + full_constants));
  replace_all(text, "@format", packed_format(numbers));
  return text;
}

std::string common_path_of(std::span<const script_tier> tiers, script_task task) {
  constexpr std::string_view each = "@each\n", end = "@end\n";
  std::string text;
  std::string_view rest = policies::lua::record_all_lua;
  for (std::size_t at = 0; (at = rest.find(each)) != rest.npos;) {
    text += rest.substr(0, at);
    rest.remove_prefix(at + each.size());
    const std::string_view repeated = rest.substr(0, rest.find(end));
    rest.remove_prefix(repeated.size() + end.size());
    for (std::size_t index = 0; index < tiers.size(); ++index) {
      if (has(tiers[index].part, repeated)) text += text_for(tiers, index, repeated);
    }
  }
  text += rest;

  choose_lines(text, task);

  std::size_t numbers = task == script_task::reserve ? 2 : 1;
  for (const script_tier& t : tiers) {
    numbers += static_cast<std::size_t>(std::ranges::count(section_of(t.part, "@constants"), ','));
  }
  const std::size_t cool_down = policies::kernel(policies::cool_down()).index();
  std::size_t shown = tiers.size();
  while (shown > 1 && tiers[shown - 1].kernel_index == cool_down) --shown;
  const bool some_read = std::ranges::any_of(tiers, reads_key, &script_tier::part);
  replace_all(text, "@some_read_keys", some_read ? "true" : "false");
  replace_all(text, "@format", packed_format(numbers));
  replace_all(text, "@tiers", std::to_string(tiers.size()));
  replace_all(text, "@shown", std::to_string(shown));
  return text;
}

}  // namespace weir::redis
