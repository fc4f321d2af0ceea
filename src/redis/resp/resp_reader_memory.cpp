// The reader's memory: unread bytes and the values of a half-read reply, and when it is freed.
#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

#include "redis/resp/resp_reader.hpp"

namespace weir::redis {
namespace {

constexpr std::size_t min_capacity = 256;
constexpr std::size_t keep_capacity = 64 * 1024;  // up to this size, memory is never freed
constexpr std::size_t keep_values = 1024;

}  // namespace

std::span<char> reply_reader::prepare(std::size_t at_least) {
  if (failure_ != nullptr) {
    // A broken stream: its bytes are not read any more.
    end_ = begin_;
    in_reply_ = false;
  }
  const std::size_t unread = end_ - begin_;
  if (unread == 0) begin_ = pos_ = end_ = 0;
  shrink_if_roomy(at_least);
  if (capacity_ - end_ < at_least) {
    // Moves the unread bytes in place only if at least as many were consumed, else into twice the
    // room: in both cases as many bytes must come before the next move.
    const bool in_place = unread <= begin_ && capacity_ - unread >= at_least;
    relocate(in_place ? capacity_ : std::max(min_capacity, 2 * (unread + at_least)));
  }
  return {data_.get() + end_, capacity_ - end_};
}

void reply_reader::commit(std::size_t n) noexcept {
  assert(n <= capacity_ - end_);
  end_ += n;
}

void reply_reader::clear() noexcept {
  begin_ = pos_ = end_ = 0;
  count_ = 0;
  stack_.clear();
  if (capacity_ > keep_capacity) {
    data_.reset();
    capacity_ = 0;
  }
  if (values_.size() > keep_values) std::vector<reply_value>().swap(values_);
  in_reply_ = false;
  state_ = state::value;
  failure_ = nullptr;
}

// Frees memory if three quarters are not needed: then all moves together stay linear.
void reply_reader::shrink_if_roomy(std::size_t at_least) {
  const std::size_t wanted = end_ - begin_ + at_least;
  if (capacity_ > keep_capacity && wanted <= capacity_ / 4) {
    relocate(std::max(keep_capacity, 2 * wanted));
  }
  if (values_.size() > keep_values && count_ <= values_.size() / 4) {
    values_.resize(std::max(keep_values, 2 * count_));
    values_.shrink_to_fit();
  }
}

// Moves the unread bytes to the start of a buffer of that size, and adjusts the texts of a
// half-read reply.
void reply_reader::relocate(std::size_t capacity) {
  std::unique_ptr<char[]> fresh;
  if (capacity != capacity_) fresh = std::make_unique_for_overwrite<char[]>(capacity);
  const char* const from = data_.get() + begin_;
  char* const to = fresh ? fresh.get() : data_.get();
  const std::size_t unread = end_ - begin_;
  if (unread != 0) std::memmove(to, from, unread);
  if (in_reply_) {
    for (reply_value& n : std::span(values_.data(), count_)) {
      if (n.text.data() != nullptr) n.text = {to + (n.text.data() - from), n.text.size()};
    }
    work_ += count_;
  }
  work_ += unread;
  if (fresh) data_ = std::move(fresh);
  capacity_ = capacity;
  pos_ -= begin_;
  end_ = unread;
  begin_ = 0;
}

}  // namespace weir::redis
