#include "text/option_range.hpp"

#include <sys/un.h>

#include <algorithm>

#include "text/ascii.hpp"
#include "text/duration_text.hpp"

namespace weir::text {
namespace {

constexpr std::size_t max_name_length = 255;
constexpr std::size_t max_socket_path_length = sizeof(sockaddr_un::sun_path) - 1;

constexpr bool is_control_or_space(char c) noexcept { return is_control(c) || c == ' '; }

std::string written(std::chrono::microseconds d) {
  const scaled_duration scaled = scale(d);
  return std::to_string(scaled.count) + scaled.unit;
}

}  // namespace

std::string first_of(std::initializer_list<std::string> faults) {
  const auto* const found = std::ranges::find_if_not(faults, &std::string::empty);
  return found == faults.end() ? std::string{} : *found;
}

std::string fault_of_number(const char* name, std::uint64_t value, std::uint64_t low,
                            std::uint64_t high) {
  if (value >= low && value <= high) return {};
  return std::string(name) + " is not from " + std::to_string(low) + " to " + std::to_string(high);
}

std::string fault_of_duration(const char* name, std::chrono::microseconds value,
                              std::chrono::microseconds low) {
  constexpr std::chrono::hours longest{24};
  if (value >= low && value <= longest) return {};
  return std::string(name) + " is not from " + written(low) + " to " + written(longest);
}

std::string fault_of_name(const std::string& name, const char* what) {
  if (name.size() > max_name_length) return std::string(what) + " is longer than 255 characters";
  if (std::ranges::any_of(name, is_control_or_space)) {
    return std::string(what) + " contains a space or a control character";
  }
  return {};
}

std::string fault_of_socket_path(const std::string& path) {
  if (path.size() > max_socket_path_length) {
    return "the path of the socket is longer than the " + std::to_string(max_socket_path_length) +
           " bytes the system allows";
  }
  if (std::ranges::any_of(path, is_control)) {
    return "the path of the socket contains a control character";
  }
  return {};
}

}  // namespace weir::text
