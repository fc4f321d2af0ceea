#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "weir/error.hpp"

namespace weir::memcached {

/// One reply of the meta protocol, or one line of a reply to `stats`.
struct meta_reply {
  enum class kind : std::uint8_t {
    value,         ///< VA: the item with its value
    done,          ///< HD: stored, deleted or found
    missing,       ///< EN: mg found no item
    not_stored,    ///< NS: an item was there already
    exists,        ///< EX: the item has another CAS number
    not_found,     ///< NF: there is no item any more
    noop,          ///< MN: the answer to mn
    stat,          ///< STAT: a name and its value
    end,           ///< END: the last line of a reply to stats
    client_error,  ///< CLIENT_ERROR or ERROR: the server did not understand the request
    server_error,  ///< SERVER_ERROR
  };

  kind what = kind::end;
  std::string_view text = {};  ///< the value; the rest of the line of stat and errors
  std::uint64_t cas = 0;       ///< the flag c of value and done; 0 if it was not asked for
  bool oversized = false;      ///< the value exceeds the reader's bound: text is its first byte
};

/// Reads replies of memcached's meta protocol from bytes in pieces of any size. Its memory is
/// bounded: a longer value is skipped, a longer line breaks the stream.
class meta_reader {
 public:
  /// The longest line without its end. Replies to weir's own requests have less than 100 bytes;
  /// `stats` has values of up to some hundred bytes.
  static constexpr std::size_t max_line = 2048;
  /// No server stores more than 1 GiB in an item: a larger size breaks the stream.
  static constexpr std::uint64_t max_skipped = std::uint64_t{1} << 30;

  explicit meta_reader(std::size_t max_value) : max_value_(max_value) {}

  /// Room for bytes to come. What next() returned is not valid any more.
  std::span<char> prepare(std::size_t size);
  void commit(std::size_t size) noexcept { end_ += size; }

  /// The next whole reply, valid until the next call of any function except memory(). Null if there
  /// is none yet; or if `ec` is set: the bytes are not of this protocol, and no reply follows.
  const meta_reply* next(error_code& ec);

  /// Forgets everything, for a new connection.
  void clear() noexcept;

  /// How many bytes it holds.
  std::size_t memory() const noexcept { return buffer_.capacity(); }

 private:
  std::optional<std::string_view> line();
  bool read_line(std::string_view line);
  bool read_flags(std::string_view flags);
  bool read_value(std::string_view rest);
  bool fail(error_code& ec);

  std::size_t max_value_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // what is not read yet
  std::size_t searched_ = 0;         // from begin_: no line ends there
  meta_reply reply_;
  std::optional<std::size_t> due_;  // of the value that is being read, with its line end
  std::uint64_t skip_ = 0;          // the bytes left of an oversized value, with its line end
  char first_ = 0;                  // its first byte
  bool broken_ = false;
};

}  // namespace weir::memcached
