#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::redis {

/// Appends commands to a buffer, in the form every server reads: an array of bulk strings.
///
/// The writer keeps nothing but a reference to the buffer, which must outlive it; bytes already
/// there stay. It does not check that as many arguments follow as `begin` announced. Arguments are
/// binary safe, and copied at once; none may point into the buffer itself. Each call grows the
/// buffer at most once (std::bad_alloc: what that call would have written is missing, what came
/// before it stays, so the caller truncates to where the command began). Not thread-safe.
class command_writer {
 public:
  explicit command_writer(std::string& out) noexcept : out_(&out) {}

  /// Opens a command of that many arguments, its name included.
  command_writer& begin(std::size_t arguments);

  command_writer& arg(std::string_view text);

  /// One argument out of several pieces, as if they had been concatenated first.
  command_writer& arg_parts(std::initializer_list<std::string_view> parts);

  /// A number in decimal.
  command_writer& arg(std::int64_t number);

  template <std::integral T>
  command_writer& arg(T number) {
    static_assert(!std::same_as<T, bool> && !std::same_as<T, char>,
                  "neither a number nor a string: say which");
    static_assert(std::is_signed_v<T> || sizeof(T) < sizeof(std::int64_t),
                  "an unsigned 64-bit number may not fit: check it, then cast it");
    return arg(static_cast<std::int64_t>(number));
  }

 private:
  std::string* out_;
};

/// A whole command: `write_command(out, "PEXPIRE", key, 1500)`.
template <class... Args>
void write_command(std::string& out, const Args&... args) {
  static_assert(sizeof...(Args) > 0, "a command has a name");
  command_writer writer(out);
  writer.begin(sizeof...(Args));
  (writer.arg(args), ...);
}

}  // namespace weir::redis
