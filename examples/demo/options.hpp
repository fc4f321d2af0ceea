#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace demo {

struct options {
  std::string store = "memory://";
  int callers = 300;
  int seconds = 10;
  int processes = 1;  ///< 4 if the store can be shared
  int rate = 50;
  bool help = false;
};

/// Its text says which option is wrong, and what it takes.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

options parse_options(const std::vector<std::string>& arguments);

std::string_view usage();

}  // namespace demo
