#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../shared/command_line.hpp"

namespace throttled {

struct options {
  std::string store = "memory://";
  int processes = 1;  ///< 4 if the store can be shared
  int callers = 40;
  int seconds = 20;
  bool kill_one = false;
  bool stop_one = false;
  bool with_weir = true;
  bool help = false;
};

options parse_options(const std::vector<std::string>& arguments);

std::string_view usage();

}  // namespace throttled
