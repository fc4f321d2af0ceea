#pragma once

#include <stdexcept>
#include <string>
#include <vector>

namespace examples {

/// Its text says which option is wrong, and what it takes.
struct usage_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Walks through options, both as "--rate 50" and as "--rate=50".
///
///     command_line line(arguments);
///     while (line.next()) {
///       if (line.name() == "--rate") rate = line.number(1, 1000);
///       else line.unknown();
///     }
class command_line {
 public:
  explicit command_line(std::vector<std::string> arguments) : arguments_(std::move(arguments)) {}

  bool next();
  const std::string& name() const noexcept { return name_; }
  std::string value();
  int number(int least, int most);
  [[noreturn]] void unknown() const;

 private:
  const std::vector<std::string> arguments_;
  std::size_t place_ = 0;  // behind the present option
  std::string name_;
};

}  // namespace examples
