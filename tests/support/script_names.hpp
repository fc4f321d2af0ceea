#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "redis/script/scripts.hpp"

namespace weir::test {

/// The index of the script with that name; the number of scripts if there is none.
inline std::size_t script_index(std::string_view sha) {
  const auto all = redis::scripts();
  return static_cast<std::size_t>(std::ranges::find(all, sha, &redis::script::sha) - all.begin());
}

/// Makes EVAL with the text of a script EVALSHA with its name. True if it was EVAL.
inline bool name_script(std::vector<std::string>& words) {
  if (words.front() != "EVAL") return false;
  const auto all = redis::scripts();
  const auto found = std::ranges::find(all, words.at(1), &redis::script::text);
  words[0] = "EVALSHA";
  words[1] = found == all.end() ? std::string() : found->sha;
  return true;
}

}  // namespace weir::test
