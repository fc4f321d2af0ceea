#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace weir::detail {

/// Objects that are to be told of something, as long as they exist. They need not sign off: who is
/// gone is forgotten when others come. Any thread may call.
template <class Member>
class roster {
 public:
  /// False if close() has been called: its result may lack this member.
  bool add(std::weak_ptr<Member> one) {
    const std::lock_guard lock(mutex_);
    if (members_.size() >= sweep_at_) {
      std::erase_if(members_, [](const auto& m) { return m.expired(); });
      sweep_at_ = 2 * members_.size() + least;
    }
    members_.push_back(std::move(one));
    return !closed_;
  }

  /// As present(). A member that is added later is told by add().
  std::vector<std::shared_ptr<Member>> close() {
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
    }
    return present();
  }

  /// Those that exist. Let go of them outside any lock: the last handle of one may be among these.
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
  std::size_t sweep_at_ = least;  // so that forgetting costs each newcomer a constant
};

}  // namespace weir::detail
