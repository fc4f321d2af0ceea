#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "../shared/command_line.hpp"

namespace demo {

struct options {
  std::string store = "memory://";
  int callers = 300;
  int seconds = 10;
  int processes = 1;  ///< 4 if the store can be shared
  int rate = 50;
  bool help = false;
};

using examples::usage_error;

options parse_options(const std::vector<std::string>& arguments);

std::string_view usage();

}  // namespace demo
