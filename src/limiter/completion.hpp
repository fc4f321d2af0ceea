#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>

#include "check/completion_sink.hpp"
#include "waiting/waiting_room.hpp"

namespace weir::detail {

class delivery_queue;

/// Finishes every check that comes from a store: applies the failure policy, writes the receipt,
/// and adds retry jitter in a cool-down. Owns the waiters of acquire_all.
class completion final : public completion_sink {
 public:
  explicit completion(const boost::asio::any_io_executor& executor);

  void complete(check& c) override;
  void complete(check_list&& done) override;
  void wait(check& c) override;
  void cancel(check& c, cancel_scope scope) override;
  void close(const std::shared_ptr<void>& keep_alive) override;
  void context_shut_down() noexcept override;

 private:
  boost::asio::any_io_executor executor_;
  const std::shared_ptr<delivery_queue> ready_;
  waiting::waiting_room joint_room_;
};

}  // namespace weir::detail
