#pragma once

#include <algorithm>
#include <cstddef>

namespace weir::detail {

/// The calls of a pipeline that are due a reply each, oldest first, and the write in progress,
/// which ends with the last of them. A call has `end`, the offset of its end in its write.
template <class List>
class sent_calls : public List {
 public:
  /// Called for each call that was appended for the next write.
  void staged() noexcept { ++staged_; }
  bool is_writing() const noexcept { return writing_; }
  void begin_write() noexcept { writing_ = true; }
  void end_write() noexcept {
    staged_ = 0;
    writing_ = false;
  }
  /// The first call was answered and is gone. Replies may come before the write is reported done.
  void answered() noexcept { staged_ = std::min(staged_, this->size()); }

  /// The connection is lost. Calls f(call, did_not_run), which takes the call out, for each call.
  /// `sent`: how many bytes of the write in progress were sent: the server cannot have got all of a
  /// call that was cut short, so it cannot have run it.
  template <class F>
  void lose(std::size_t sent, F&& f) {
    while (!this->empty()) {
      const bool is_in_write = this->size() <= staged_;
      f(this->front(), is_in_write && this->front().end > sent);
    }
    end_write();
  }

 private:
  std::size_t staged_ = 0;  // how many calls at the end are in the write in progress
  bool writing_ = false;
};

}  // namespace weir::detail
