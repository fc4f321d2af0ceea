#include "command_line.hpp"

#include <charconv>

namespace examples {

bool command_line::next() {
  if (place_ == arguments_.size()) return false;
  const std::string& argument = arguments_[place_++];
  name_ = argument.substr(0, argument.find('='));
  return true;
}

std::string command_line::value() {
  const std::string& argument = arguments_[place_ - 1];
  if (argument.size() > name_.size()) return argument.substr(name_.size() + 1);
  if (place_ == arguments_.size()) throw usage_error(name_ + " needs a value");
  return arguments_[place_++];
}

int command_line::number(int least, int most) {
  const std::string text = value();
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end || number < least || number > most) {
    throw usage_error(name_ + " takes a number from " + std::to_string(least) + " to " +
                      std::to_string(most) + ", not \"" + text + "\"");
  }
  return number;
}

void command_line::unknown() const { throw usage_error("unknown option " + name_); }

}  // namespace examples
