#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace weir::detail {

/// Weak handles of objects that must be told of an event while they exist. They need not
/// unregister: add() forgets destroyed ones. Thread-safe.
template <class Member>
class roster {
 public:
  /// False if close() was called before; its result may lack this member.
  bool add(std::weak_ptr<Member> one) {
    const std::lock_guard lock(mutex_);
    if (members_.size() >= sweep_at_) {
      std::erase_if(members_, [](const auto& m) { return m.expired(); });
      sweep_at_ = 2 * members_.size() + least;
    }
    members_.push_back(std::move(one));
    return !closed_;
  }

  /// Returns present(). For a later member, add() returns false.
  std::vector<std::shared_ptr<Member>> close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    return present();
  }

  /// The members that exist. Release the result outside any lock: it may hold the last handle of a
  /// member.
  std::vector<std::shared_ptr<Member>> present() const {
    std::vector<std::shared_ptr<Member>> found;
    const std::lock_guard lock(mutex_);
    for (const auto& m : members_) {
      if (auto one = m.lock()) found.push_back(std::move(one));
    }
    return found;
  }

 private:
  static constexpr std::size_t least = 16;

  mutable std::mutex mutex_;
  std::vector<std::weak_ptr<Member>> members_;
  bool closed_ = false;
  std::size_t sweep_at_ = least;  // grows with the members: add() costs amortized constant time
};

}  // namespace weir::detail
