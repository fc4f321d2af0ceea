#include "memcached/meta_reader.hpp"

#include <algorithm>
#include <cstring>

#include "text/number.hpp"

namespace weir::memcached {
namespace {

constexpr std::size_t line_end = 2;             // \r\n
constexpr std::size_t kept_memory = 64 * 1024;  // of an idle reader

struct named_kind {
  std::string_view name;
  meta_reply::kind kind;
};
constexpr named_kind plain_kinds[] = {
    {"HD", meta_reply::kind::done},       {"EN", meta_reply::kind::missing},
    {"NS", meta_reply::kind::not_stored}, {"EX", meta_reply::kind::exists},
    {"NF", meta_reply::kind::not_found},  {"MN", meta_reply::kind::noop},
    {"END", meta_reply::kind::end},
};
constexpr named_kind kinds_with_text[] = {
    {"STAT", meta_reply::kind::stat},
    {"ERROR", meta_reply::kind::client_error},
    {"CLIENT_ERROR", meta_reply::kind::client_error},
    {"SERVER_ERROR", meta_reply::kind::server_error},
};

/// Takes the first word and the space behind it.
std::string_view take_word(std::string_view& text) {
  const std::size_t size = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, size);
  text.remove_prefix(std::min(size + 1, text.size()));
  return word;
}

bool read_number(std::string_view text, std::uint64_t& out) {
  const auto number = text::read_number<std::uint64_t>(text);
  if (number) out = *number;
  return number.has_value();
}

}  // namespace

std::span<char> meta_reader::prepare(std::size_t size) {
  if (begin_ == end_) {
    begin_ = end_ = searched_ = 0;
    // A large value must not keep its memory for ever.
    if (buffer_.size() > kept_memory && !due_) std::vector<char>().swap(buffer_);
  }
  if (buffer_.size() - end_ < size && begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < size) buffer_.resize(end_ + size);
  return {buffer_.data() + end_, size};
}

void meta_reader::clear() noexcept {
  begin_ = end_ = searched_ = 0;
  due_.reset();
  skip_ = 0;
  broken_ = false;
}

bool meta_reader::fail(error_code& ec) {
  broken_ = true;
  ec = error::protocol_error;
  return false;
}

/// Takes the next line, without its end.
std::optional<std::string_view> meta_reader::line() {
  const char* const from = buffer_.data() + begin_;
  const std::size_t size = end_ - begin_;
  const void* const found = size > searched_ ? std::memchr(from + searched_, '\n', size - searched_)
                                             : nullptr;
  if (found == nullptr) {
    searched_ = size;
    return {};
  }
  auto length = static_cast<std::size_t>(static_cast<const char*>(found) - from);
  begin_ += length + 1;
  searched_ = 0;
  if (length > 0 && from[length - 1] == '\r') --length;
  return std::string_view(from, length);
}

const meta_reply* meta_reader::next(error_code& ec) {
  if (broken_) {
    fail(ec);
    return nullptr;
  }
  if (skip_ > 0) {
    const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(skip_, end_ - begin_));
    if (reply_.text.empty() && now > 0) {
      first_ = buffer_[begin_];
      reply_.text = {&first_, 1};
    }
    begin_ += now;
    skip_ -= now;
    return skip_ == 0 ? &reply_ : nullptr;
  }
  if (!due_) {
    const auto found = line();
    const bool too_long = found ? found->size() > max_line : end_ - begin_ > max_line + line_end;
    if (too_long || (found && !read_line(*found))) {
      fail(ec);
      return nullptr;
    }
    if (!found) return nullptr;
    if (skip_ > 0) return next(ec);
    if (!due_) return &reply_;
  }
  if (end_ - begin_ < *due_) return nullptr;
  const std::string_view bytes(buffer_.data() + begin_, *due_);
  if (!bytes.ends_with("\r\n")) {
    fail(ec);
    return nullptr;
  }
  reply_.text = bytes.substr(0, bytes.size() - line_end);
  begin_ += *due_;
  due_.reset();
  return &reply_;
}

bool meta_reader::read_line(std::string_view line) {
  reply_ = {};
  const std::string_view name = take_word(line);
  if (name == "VA") return read_value(line);
  for (const named_kind& k : plain_kinds) {
    if (name != k.name) continue;
    reply_.what = k.kind;
    return read_flags(line);
  }
  for (const named_kind& k : kinds_with_text) {
    if (name != k.name) continue;
    reply_.what = k.kind;
    reply_.text = line;
    return true;
  }
  return false;
}

/// Reads the flags behind a reply's name. Unknown ones may be of a later server.
bool meta_reader::read_flags(std::string_view flags) {
  while (!flags.empty()) {
    const std::string_view flag = take_word(flags);
    if (flag.starts_with('c') && !read_number(flag.substr(1), reply_.cas)) return false;
  }
  return true;
}

bool meta_reader::read_value(std::string_view rest) {
  std::uint64_t size = 0;
  if (!read_number(take_word(rest), size) || size > max_skipped || !read_flags(rest)) return false;
  reply_.what = meta_reply::kind::value;
  reply_.oversized = size > max_value_;
  if (reply_.oversized) {
    skip_ = size + line_end;
  } else {
    due_ = static_cast<std::size_t>(size) + line_end;
  }
  return true;
}

}  // namespace weir::memcached
