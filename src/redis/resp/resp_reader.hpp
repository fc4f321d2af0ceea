#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "weir/error.hpp"

namespace weir::redis {

enum class reply_type : std::uint8_t {
  simple_string,
  error,
  integer,
  bulk_string,
  null,  ///< `_`, and RESP2's `$-1` and `*-1`
  boolean,
  number,      ///< a RESP3 double, as text; only its characters are checked
  big_number,  ///< as text
  bulk_error,
  verbatim_string,  ///< the text without the format ("txt:"), so that it reads like a bulk string
  array,
  map,
  set,
  push,
  attribute,  ///< never in a reply_view: attributes are read and dropped
};

/// One value of a reply.
struct reply_value {
  reply_type type{};
  /// The value of an integer; 0 or 1 for a boolean; the number of children of an aggregate (of a
  /// map: keys and values).
  std::int64_t integer = 0;
  /// Points into the reader's buffer.
  std::string_view text;
};

/// The bounds of a reply. A larger one breaks the stream with `error::protocol_error`.
struct reply_limits {
  /// Bytes of one bulk string.
  std::size_t max_bulk = 1024 * 1024;
  /// Bytes of one line of text (simple string, error, double, big number).
  std::size_t max_line = 64 * 1024;
  /// Values in one reply: its root, aggregates, the values in its attributes.
  std::size_t max_values = 65'536;
  /// Aggregates inside each other; an attribute is a level too.
  std::size_t max_depth = 8;
  /// All bytes of one reply, its attributes included.
  std::size_t max_reply_bytes = 4 * 1024 * 1024;
};

/// One complete reply: its values in depth-first order, the root first. It is a view into the
/// reader, valid until the next call of `next`, `prepare` or `clear` there.
class reply_view {
 public:
  const reply_value& root() const noexcept { return values_.front(); }
  std::span<const reply_value> values() const noexcept { return values_; }

  /// An error reply (`-` or `!`). An error inside an aggregate (as EXEC gives) does not count.
  bool is_error() const noexcept {
    return root().type == reply_type::error || root().type == reply_type::bulk_error;
  }
  bool is_push() const noexcept { return root().type == reply_type::push; }

  /// True if this is a flat array of exactly `out.size()` integers, which `out` then holds. If
  /// false, `out` is unspecified.
  bool integers(std::span<std::int64_t> out) const noexcept;

  /// The index of the first value behind the value at `index` and its children.
  std::size_t after(std::size_t index) const noexcept;

  /// The text of the value behind that key, in the value at `index`: a map, or an array with keys
  /// and values in turn (RESP2). Empty if it is missing.
  std::string_view text_at(std::size_t index, std::string_view key) const noexcept;

 private:
  friend class reply_reader;
  std::span<const reply_value> values_;
};

/// Turns bytes into replies, RESP2 and RESP3, as they come: in one piece, many replies at once, or
/// byte by byte.
///
///     std::span<char> room = reader.prepare(16 * 1024);
///     reader.commit(read(socket, room));
///     while (const reply_view* reply = reader.next(ec)) handle(*reply);
///     if (ec) ...  // the stream is broken: close the connection
///
/// It is strict, because after a wrong length all the rest would be misread:
/// - A length is decimal digits without sign or leading zeros. `-1` is the null of `$` and `*`, an
///   error elsewhere.
/// - An integer may have a sign, `+` too, as the specification allows, but no leading zeros, and
///   has to fit 64 bits.
/// - Lines end with CR LF, and contain neither.
/// - A push is only legal between replies. It is returned as a reply that no command has caused.
/// - Streamed types (`$?`, `*?`, `;`, `.`) are refused: no server sends them.
/// Attributes are checked like other values, then dropped.
///
/// Linear: the position inside a half-read reply is kept in a stack of remaining counts, without
/// recursion. However small the pieces, only an unfinished number of some twenty bytes is read
/// again, and unread bytes are moved only after as many bytes were consumed or read.
///
/// Bounded: an announced length or count allocates nothing. If `next` is called until it returns
/// null after every commit, and `prepare` asks for at most n bytes, the buffer stays below
/// 2 * (max_reply_bytes + max_line + n) + 1 KiB, with at most max_values values (room for twice as
/// many).
/// The memory of a large reply is freed when the next one is small.
///
/// Not thread-safe. std::bad_alloc from `prepare` changes nothing; from `next` it breaks the
/// stream, as a framing error does.
class reply_reader {
 public:
  explicit reply_reader(reply_limits limits = {}) : limits_(limits) {}

  // Not copyable: a reply_view points into its reader.
  reply_reader(const reply_reader&) = delete;
  reply_reader& operator=(const reply_reader&) = delete;

  /// All free room of the buffer, at least `at_least` bytes. Bytes that were written there but not
  /// committed are lost.
  std::span<char> prepare(std::size_t at_least);

  /// Takes over the first `n` bytes of that room, which the caller has filled.
  void commit(std::size_t n) noexcept;

  /// The next complete reply, or null when more bytes are needed: then `ec` is clear. A framing
  /// error is final: `ec` is `error::protocol_error`, now and on every later call until `clear`;
  /// replies completed before it were returned.
  const reply_view* next(error_code& ec);

  /// Forgets bytes, state and error; for a new connection.
  void clear() noexcept;

  /// The framing error as text, for a log; null without one.
  const char* failure() const noexcept { return failure_; }

  /// Committed bytes that belong to no returned reply.
  std::size_t buffered() const noexcept { return end_ - begin_; }

  /// Allocated bytes of buffer and values.
  std::size_t memory() const noexcept {
    return capacity_ + values_.capacity() * sizeof(reply_value) + stack_.capacity() * sizeof(frame);
  }

  /// The number of bytes read or moved so far: for tests.
  std::uint64_t work() const noexcept { return work_; }

 private:
  enum class outcome : std::uint8_t { going, replied, starved, broken };
  enum class state : std::uint8_t { value, line, bulk };

  struct frame {
    std::size_t remaining;    // values still to come
    std::size_t first_value;  // attribute: the index of its first value, to drop its values
    bool attribute;
  };

  outcome parse();
  outcome resume(const char*& at, const char* end);
  outcome read_value(const char*& at, const char* end);
  outcome read_fixed(const char*& at, const char* end);
  outcome read_integer(const char*& at, const char* end);
  outcome open_aggregate(const char*& at, const char* end);
  outcome open_bulk(const char*& at, const char* end);
  outcome read_bulk(const char*& at, const char* end);
  outcome read_line(const char*& at, const char* end);
  void add(reply_type type, std::int64_t integer, std::string_view text = {});
  outcome close_value();
  outcome read_length(const char*& at, const char* end, std::uint64_t& length, bool& null);
  outcome broken(const char* why) noexcept;

  void shrink_if_roomy(std::size_t at_least);
  void relocate(std::size_t capacity);

  reply_limits limits_;

  // [begin_, end_) is unread: begin_ is where the current reply starts, pos_ how far it has been
  // parsed.
  std::unique_ptr<char[]> data_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t pos_ = 0;
  std::size_t end_ = 0;

  // The reply being read. Its values' texts point into data_, and are moved along when that moves.
  // Only the first count_ values are in use: growing rarely, and in steps, keeps adding one cheap.
  std::vector<reply_value> values_;
  std::size_t count_ = 0;
  std::vector<frame> stack_;
  std::size_t announced_ = 0;  // values that this reply has announced so far
  bool in_reply_ = false;
  state state_ = state::value;
  reply_type type_{};        // the type of the current line or bulk
  std::size_t length_ = 0;   // the length of the current bulk
  std::size_t scanned_ = 0;  // bytes of the current line that hold no terminator

  const char* failure_ = nullptr;
  std::uint64_t work_ = 0;
  reply_view view_;
};

}  // namespace weir::redis
