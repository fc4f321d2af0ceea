#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "check/store_backend.hpp"

namespace weir::net {

/// The stores beside one store that answer a call only when replicas have its count: one for each
/// number of replicas that a limiter asks for, as long as such a limiter exists. Each has
/// connections of its own, because waiting for a replica blocks a connection. Thread-safe.
class replica_stores {
 public:
  using handle = std::shared_ptr<detail::store_backend>;

  /// The store for so many replicas; make() makes it, under the mutex.
  template <class Make>
  handle get(std::size_t replicas, Make&& make) {
    handle found;
    bool closed = false;
    {
      const std::lock_guard lock(mutex_);
      std::weak_ptr<detail::store_backend>& known = made_[replicas];
      found = known.lock();
      if (found == nullptr) known = found = make();
      closed = closed_;
    }
    if (closed) found->close();
    return found;
  }

  /// Closes all of them, also later ones.
  void close() {
    std::vector<handle> present;
    {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      for (const auto& [replicas, known] : made_) {
        if (handle one = known.lock()) present.push_back(std::move(one));
      }
    }
    for (const handle& one : present) one->close();
  }

 private:
  std::mutex mutex_;
  std::map<std::size_t, std::weak_ptr<detail::store_backend>> made_;
  bool closed_ = false;
};

/// Opens a store beside `whole`, of which it keeps the handle, and gives a handle whose end closes
/// the new one.
template <class Session>
replica_stores::handle beside(const replica_stores::handle& whole,
                              const std::shared_ptr<Session>& made,
                              std::unique_ptr<detail::completion_sink> sink) {
  // Not a deleter of the handle: it would live as long as the weak handle in `whole`, and keep
  // `whole` for ever.
  struct both {
    replica_stores::handle whole;
    std::shared_ptr<Session> made;
    both(replica_stores::handle w, std::shared_ptr<Session> m)
        : whole(std::move(w)), made(std::move(m)) {}
    both(const both&) = delete;
    both& operator=(const both&) = delete;
    ~both() { made->close(); }
  };
  made->attach(std::move(sink));
  made->share_cooled_with(*whole);
  replica_stores::handle opened(std::make_shared<both>(whole, made), made.get());
  made->open();
  return opened;
}

}  // namespace weir::net
