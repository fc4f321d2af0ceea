#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "redis/resp/resp_reader.hpp"

namespace weir::test {

/// Reads what a client writes: commands are arrays of bulk strings, so the reader of replies can do
/// it.
class command_reader {
 public:
  using command = std::vector<std::string>;

  void feed(std::string_view bytes) {
    const auto room = reader_.prepare(bytes.size());
    std::copy(bytes.begin(), bytes.end(), room.begin());
    reader_.commit(bytes.size());
  }

  /// The next complete command; none if more bytes are needed, or if what was fed is no command.
  std::optional<command> next() {
    error_code ec;
    const redis::reply_view* read = reader_.next(ec);
    if (read == nullptr || read->root().type != redis::reply_type::array) return {};
    command words;
    for (const redis::reply_value& word : read->values().subspan(1)) words.emplace_back(word.text);
    return words;
  }

  /// For a new connection.
  void clear() { reader_.clear(); }

 private:
  redis::reply_reader reader_;
};

}  // namespace weir::test
