#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace weir::redis {

/// Appends commands to a buffer, as arrays of bulk strings.
///
/// The writer keeps only a reference to the buffer, which must outlive it; earlier bytes stay. The
/// caller must append as many arguments as `begin` announced. Arguments are binary safe and copied
/// at once; none may point into the buffer. Each call grows the buffer at most once. After
/// std::bad_alloc, that call has written nothing, and the caller truncates the buffer to the
/// beginning of the command. Not thread-safe.
class command_writer {
 public:
  explicit command_writer(std::string& out) noexcept : out_(&out) {}

  /// Opens a command with that many arguments, including its name.
  command_writer& begin(std::size_t arguments);

  command_writer& arg(std::string_view text);

  /// Writes a number in decimal.
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

/// Writes a whole command: `write_command(out, "PEXPIRE", key, 1500)`.
template <class... Args>
void write_command(std::string& out, const Args&... args) {
  static_assert(sizeof...(Args) > 0, "a command has a name");
  command_writer writer(out);
  writer.begin(sizeof...(Args));
  (writer.arg(args), ...);
}

}  // namespace weir::redis
